"""From what a user gives ``fit`` to what is trained on: people, classes, who validates, and normalised signals."""

import numpy as np

from braindecode_censor.trials.dataset import check_labels
from braindecode_censor.trials.people import change_people
from braindecode_censor.trials.splits import split_subject, validation_subject
from braindecode_censor.trials.subject_labels import find_labels

__all__ = [
    "check_training_part",
    "choose_validation",
    "encode",
    "normalize_by_person",
    "normalize_trials",
    "read_subjects",
    "split_people",
]

_NO_SUBJECTS = (
    "whose trial each one is decides what is censored, who validates and what a batch holds. Call "
    "fit(X, y, subjects=labels) with one label per trial. In MOABB use CrossSubjectEvaluation, which hands the "
    "labels over by itself; WithinSession and CrossSession evaluations do not, and have nothing to censor: there "
    "penalty=None with valid_subject=None trains the plain network."
)


def read_subjects(X, subjects, n_trials, needed):
    """Find out whose trial each one is."""
    subjects = find_labels(X) if subjects is None else subjects
    if subjects is None and not needed:
        return np.zeros(n_trials, dtype=np.int64)
    return check_labels("subjects", subjects, n_trials, _NO_SUBJECTS)


def encode(y, classes, remedy):
    """Number the classes."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    unknown = [label for label in np.unique(y).tolist() if label not in places]
    if unknown:
        raise ValueError(
            f"y holds {unknown}, but the net was made for the classes {classes.tolist()}: {remedy}"
        )
    return np.array([places[label] for label in y.tolist()], dtype=np.int64)


def choose_validation(valid_subject, subjects, all_subjects=None):
    """Choose who validates."""
    if valid_subject is None:
        return []
    if isinstance(valid_subject, str) and valid_subject == "rotate":
        valid_subject = validation_subject(subjects, all_subjects)
    several = isinstance(valid_subject, (list, tuple, set, np.ndarray)) and np.ndim(valid_subject) == 1
    chosen = list(valid_subject) if several else [valid_subject]
    if not chosen:
        raise ValueError("valid_subject=[] names nobody: pass valid_subject=None to validate on nobody.")
    return [label.item() if isinstance(label, np.generic) else label for label in chosen]


def split_people(subjects, chosen):
    """Separate the trials of those who validate from those that are trained on."""
    valid = [split_subject(subjects, label)[1] for label in chosen]
    valid = np.unique(np.concatenate([*valid, np.arange(0)]))
    return np.setdiff1d(np.arange(len(subjects)), valid), valid


def check_training_part(codes, subjects, train, chosen, classes, censors):
    """Raise unless there are people and classes enough to train on."""
    if len(classes) < 2:
        raise ValueError(f"y holds one class, {classes.tolist()}: a classifier needs at least two.")
    people = np.unique(subjects[train])
    needed = 2 if censors else 1
    validators = ", ".join(map(repr, chosen))
    if len(people) < needed:
        beside = f" beside the validation subject {validators}" if chosen else ""
        raise ValueError(
            f"subjects: {len(people)} left to train on{beside}, but {'censoring' if censors else 'training'} "
            f"needs {needed}: add subjects or pass {'valid_subject=None' if chosen else 'penalty=None'}."
        )
    absent = np.setdiff1d(codes, codes[train])
    if len(absent):
        raise ValueError(
            f"y: class {classes[absent].tolist()} occurs only in the validation subject {validators}; "
            "choose another valid_subject or leave the class out."
        )


def normalize_trials(normalizer, signals, subjects, train):
    """Fit the normaliser on the people who are trained on, and normalise everybody's trials."""
    return normalizer.fit_people(signals, subjects, train)


def normalize_by_person(normalizer, signals, subjects):
    """Normalise trials as those of training are: each person's by the person's own statistics."""
    if normalizer.strategy == "population":
        return normalizer.change(signals)
    return change_people(signals, subjects, normalizer.strategy, normalizer.estimator)
