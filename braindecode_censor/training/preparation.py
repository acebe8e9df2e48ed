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
    """Find out whose trial each one is.

    Parameters
    ----------
    X : object
        What ``fit`` was given; Epochs and Braindecode datasets may carry the labels.
    subjects : array-like of shape (n_trials,) or None
        What the user says.
    n_trials : int
        Trials in X.
    needed : bool
        Whether training needs to know. If not, all trials count as one person's where nobody says whose they are.

    Returns
    -------
    subjects : ndarray of shape (n_trials,)
        Labels.
    """
    subjects = find_labels(X) if subjects is None else subjects
    if subjects is None and not needed:
        return np.zeros(n_trials, dtype=np.int64)
    return check_labels("subjects", subjects, n_trials, _NO_SUBJECTS)


def encode(y, classes, remedy):
    """Number the classes.

    Parameters
    ----------
    y : ndarray of shape (n_trials,)
        Labels.
    classes : ndarray of shape (n_classes,)
        All labels that are known.
    remedy : str
        What to do about unknown ones, for the message.

    Returns
    -------
    codes : ndarray of shape (n_trials,)
        Place of each label in `classes`.
    """
    places = {label: place for place, label in enumerate(classes.tolist())}
    unknown = [label for label in np.unique(y).tolist() if label not in places]
    if unknown:
        raise ValueError(
            f"y holds {unknown}, but the net was made for the classes {classes.tolist()}: {remedy}"
        )
    return np.array([places[label] for label in y.tolist()], dtype=np.int64)


def choose_validation(valid_subject, subjects, all_subjects=None):
    """Choose who validates.

    Parameters
    ----------
    valid_subject : object
        "rotate", the label of a person, a list of labels, or None for nobody.
    subjects : ndarray of shape (n_trials,)
        Whose trial each one is.
    all_subjects : list or None
        All people of the study, for "rotate".

    Returns
    -------
    chosen : list
        Labels of those who validate.
    """
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
    """Separate the trials of those who validate from those that are trained on.

    Parameters
    ----------
    subjects : ndarray of shape (n_trials,)
        Whose trial each one is.
    chosen : list
        Who validates.

    Returns
    -------
    train, valid : ndarray of int
        Positions of the trials, ascending.
    """
    valid = [split_subject(subjects, label)[1] for label in chosen]
    valid = np.unique(np.concatenate([*valid, np.arange(0)]))
    return np.setdiff1d(np.arange(len(subjects)), valid), valid


def check_training_part(codes, subjects, train, chosen, classes, censors):
    """Raise unless there are people and classes enough to train on.

    Parameters
    ----------
    codes, subjects : ndarray of shape (n_trials,)
        Class and person of every trial.
    train : ndarray of int
        Trials to train on.
    chosen : list
        Who validates.
    classes : ndarray
        Labels of the classes.
    censors : bool
        Whether people are to be told apart.
    """
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
    """Fit the normaliser on the people who are trained on, and normalise everybody's trials.

    Parameters
    ----------
    normalizer : SubjectNormalizer
        Fitted here, on the trials in `train` alone.
    signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
        Signals.
    subjects : ndarray of shape (n_trials,)
        Whose trial each one is.
    train : ndarray of int
        Trials to train on; the others' people validate.

    Returns
    -------
    signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
        Every training person by the person's own statistics. Those who validate are people with trials too, and
        are normalised by their own, as a new person is whose trials ``adapt`` was given; they have no influence on
        the population's statistics.
    """
    return normalizer.fit_people(signals, subjects, train)


def normalize_by_person(normalizer, signals, subjects):
    """Normalise trials as those of training are: each person's by the person's own statistics.

    Parameters
    ----------
    normalizer : SubjectNormalizer
        Fitted.
    signals : ndarray of shape (n_trials, n_chans, n_times)
        Signals of several people, all trials of each.
    subjects : ndarray of shape (n_trials,)
        Whose trial each one is.

    Returns
    -------
    signals : ndarray of shape (n_trials, n_chans, n_times)
        Normalised signals; by the population's statistics where there is no other ("population").
    """
    if normalizer.how == "population":
        return normalizer.change(signals)
    return change_people(signals, subjects, normalizer.how, normalizer.estimator)
