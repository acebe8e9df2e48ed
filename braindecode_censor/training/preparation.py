"""Arguments of ``fit`` as arrays: subjects, encoded classes, training and validation trials."""

import numpy as np

from braindecode_censor.storage.keys import as_plain
from braindecode_censor.trials.dataset import check_labels
from braindecode_censor.trials.quality import warn_of_one_class
from braindecode_censor.trials.splits import validation_subject
from braindecode_censor.trials.subject_labels import find_labels

__all__ = ["check_train_idx", "encode", "encode_known", "find_valid_subjects", "read_subjects"]

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
            f"y has labels that fit did not have: {unknown}; fit had {classes.tolist()}: {remedy}"
        )
    return np.array([indices[label] for label in y.tolist()], dtype=np.int64)


def encode_known(y, classes, n_trials, remedy):
    """Return labels as indices into the classes, -1 where they are -1, NaN or None; None if no label is known."""
    labels = np.asarray(y, dtype=object).ravel()
    is_known = np.array([k is not None and k == k and (k != -1 or -1 in classes) for k in labels], bool)
    if len(labels) != n_trials or is_known.all():
        valid_labels, is_known = y, np.ones(n_trials, bool)
    elif not is_known.any():
        return None
    else:
        valid_labels = labels[is_known].tolist()
    valid_labels = check_labels("y", valid_labels, is_known.sum(), "pass one class per trial.")
    warn_of_one_class(valid_labels)
    y_encoded = np.full(n_trials, -1)
    y_encoded[is_known] = encode(valid_labels, classes, remedy)
    return y_encoded


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
    return [as_plain(label) for label in labels]


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
