"""Arguments of ``fit`` as arrays: subjects, encoded classes, training and validation trials."""

import numpy as np

from braindecode_censor.trials.dataset import check_labels
from braindecode_censor.trials.splits import split_subject, validation_subject
from braindecode_censor.trials.subject_labels import find_labels

__all__ = ["check_train_idx", "encode", "find_valid_subjects", "read_subjects", "split_trials"]

_NO_SUBJECTS = (
    "censoring, validation and batches need the subject of every trial. Call fit(X, y, subjects=labels) with one label "
    "per trial. In MOABB use CrossSubjectEvaluation, which passes the labels; WithinSession and CrossSession "
    "evaluations do not, and have nothing to censor: there penalty=None with valid_subject=None trains the plain "
    "network."
)


def read_subjects(X, subjects, n_trials, are_needed):
    """Return the subject of every trial."""
    subjects = find_labels(X) if subjects is None else subjects
    if subjects is None and not are_needed:
        return np.zeros(n_trials, dtype=np.int64)
    return check_labels("subjects", subjects, n_trials, _NO_SUBJECTS)


def encode(y, classes, remedy):
    """Return labels as indices into the classes."""
    indices = {label: k for k, label in enumerate(classes.tolist())}
    unknown = [label for label in np.unique(y).tolist() if label not in indices]
    if unknown:
        raise ValueError(
            f"y holds {unknown}, but the net was made for the classes {classes.tolist()}: {remedy}"
        )
    return np.array([indices[label] for label in y.tolist()], dtype=np.int64)


def find_valid_subjects(valid_subject, subjects, all_subjects=None):
    """Return the list of validation subjects."""
    if valid_subject is None:
        return []
    if isinstance(valid_subject, str) and valid_subject == "rotate":
        valid_subject = validation_subject(subjects, all_subjects)
    is_list = isinstance(valid_subject, (list, tuple, set, np.ndarray)) and np.ndim(valid_subject) == 1
    labels = list(valid_subject) if is_list else [valid_subject]
    if not labels:
        raise ValueError("valid_subject=[] is empty: pass valid_subject=None to train on all subjects.")
    return [label.item() if isinstance(label, np.generic) else label for label in labels]


def split_trials(subjects, valid_subjects):
    """Return the indices of training and validation trials."""
    valid = [split_subject(subjects, label)[1] for label in valid_subjects]
    valid = np.unique(np.concatenate([*valid, np.arange(0)]))
    return np.setdiff1d(np.arange(len(subjects)), valid), valid


def check_train_idx(y_encoded, subjects, train, valid_subjects, classes, censors):
    """Raise unless the training trials have enough subjects and all classes."""
    if len(classes) < 2:
        raise ValueError(f"y holds one class, {classes.tolist()}: a classifier needs at least two.")
    n_subjects, n_needed = len(np.unique(subjects[train])), 2 if censors else 1
    names = ", ".join(map(repr, valid_subjects))
    if n_subjects < n_needed:
        beside = f" beside the validation subject {names}" if valid_subjects else ""
        raise ValueError(
            f"subjects: {n_subjects} to train on{beside}, but {'censoring' if censors else 'training'} needs "
            f"{n_needed}: add subjects or pass {'valid_subject=None' if valid_subjects else 'penalty=None'}."
        )
    absent = np.setdiff1d(y_encoded, y_encoded[train])
    if len(absent):
        raise ValueError(
            f"y: class {classes[absent].tolist()} occurs only in the validation subject {names}; choose another "
            "valid_subject or omit the class."
        )
