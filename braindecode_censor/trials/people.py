"""Everybody's statistics, and everybody's signals normalised: in memory at once, or when they are read from a file."""

from collections import ChainMap

import numpy as np

from braindecode_censor._check import check_choice
from braindecode_censor.trials.affine import (
    PeopleMaps,
    affine_map,
    check_estimator,
    mean_description,
    summarize,
)
from braindecode_censor.trials.dataset import check_labels, read_signals
from braindecode_censor.trials.stored import StoredSignals, read_blocks
from braindecode_censor.trials.subject_labels import find_labels
from braindecode_censor.trials.trialwise import scale_trials, zscore

__all__ = [
    "NORMALIZATIONS",
    "PERSONAL",
    "TRIALWISE",
    "change_alike",
    "change_alone",
    "change_by_person",
    "change_people",
    "normalize_people",
    "people_statistics",
    "subject_labels",
    "trials_by_person",
]

#: Normalisations that need nothing but the trial itself: name -> function of signals.
TRIALWISE = {"trial-channel": zscore, "trial": scale_trials, "none": np.copy}
#: Normalisations that are made for the person's own statistics.
PERSONAL = ("person", "euclidean")
#: Names of all normalisations. It is a view, so that an entry that somebody adds to ``TRIALWISE`` is known everywhere.
NORMALIZATIONS = ChainMap(TRIALWISE, dict.fromkeys(("population", *PERSONAL)))


def people_statistics(X, subjects, how, estimator="lwf"):
    """Compute every person's statistic.

    Parameters
    ----------
    X : ndarray of shape (n_trials, n_chans, n_times)
        Signals.
    subjects : ndarray of shape (n_trials,)
        Whose trial each one is.
    how : {"population", "person", "euclidean"}
        Normalisation.
    estimator : str
        Covariance estimator of pyRiemann, for "euclidean".

    Returns
    -------
    people : ndarray of shape (n_people,)
        Labels, sorted.
    statistics : ndarray of shape (n_people, d, n_chans)
        Mean and variance of every channel (d = 2) or the mean covariance (d = n_chans).
    """
    check_choice("how", how, ("population", *PERSONAL))
    people, trials = trials_by_person(subjects)
    means = [mean_description(read_blocks(X, mine), how, estimator)[0] for mine in trials]
    return people, summarize(np.stack(means), how)


def normalize_people(X, subjects, how, estimator="lwf"):
    """Normalise every trial by itself or by its own person's statistic.

    Parameters
    ----------
    X : array-like, Tensor, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
        Trials of several people.
    subjects : array-like of shape (n_trials,) or None
        Whose trial each one is; None takes the labels that the data carry.
    how : {"trial-channel", "trial", "person", "euclidean", "none"}
        Normalisation. "population" is not among them: its result depends on who is trained on, see
        :class:`SubjectNormalizer`.
    estimator : str
        Covariance estimator of pyRiemann, for "euclidean".

    Returns
    -------
    X : ndarray of shape (n_trials, n_chans, n_times)
        Normalised signals. A person's do not depend on who else is there, so one array serves all folds.
    """
    return np.asarray(change_people(X, subjects, how, estimator))


def change_people(X, subjects, how, estimator="lwf"):
    """Normalise as :func:`normalize_people` does; trials in a file stay there, and are normalised when they are read.

    Parameters
    ----------
    X, subjects, how, estimator : object
        As in :func:`normalize_people`.

    Returns
    -------
    X : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
        Normalised signals.
    """
    check_choice("how", how, sorted(set(NORMALIZATIONS) - {"population"}))
    signals, _ = read_signals(X)
    if how in TRIALWISE:
        return change_alone(signals, how)
    labels = subject_labels(X, subjects, len(signals))
    people, statistics = people_statistics(signals, labels, how, check_estimator(estimator))
    return change_by_person(signals, labels, people, statistics, how)


def trials_by_person(subjects):
    """Find everybody's trials by sorting once.

    Parameters
    ----------
    subjects : ndarray of shape (n_trials,)
        Whose trial each one is.

    Returns
    -------
    people : ndarray of shape (n_people,)
        Labels, sorted.
    trials : list of ndarray of int
        Positions of each person's trials, ascending.
    """
    people, codes, counts = np.unique(subjects, return_inverse=True, return_counts=True)
    return people, np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])


def change_alone(signals, how):
    """Normalise every trial by itself.

    Parameters
    ----------
    signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
        Signals.
    how : str
        A key of ``TRIALWISE``.

    Returns
    -------
    signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
        Normalised; if they are stored, whenever they are read.
    """
    change = TRIALWISE[how]
    if isinstance(signals, StoredSignals):
        return signals.changed(lambda block, _: change(block))
    return change(signals)


def change_alike(signals, affine):
    """Map all trials alike.

    Parameters
    ----------
    signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
        Signals.
    affine : Affine
        The map.

    Returns
    -------
    signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
        Mapped; if they are stored, whenever they are read.
    """
    if isinstance(signals, StoredSignals):
        return signals.changed(lambda block, _: affine(block))
    return affine(signals)


def change_by_person(signals, subjects, people, statistics, how):
    """Normalise every trial by its own person's statistic.

    Parameters
    ----------
    signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
        Signals.
    subjects : ndarray of shape (n_trials,)
        Whose trial each one is.
    people, statistics : ndarray
        All of these people, from :func:`people_statistics`.
    how : {"population", "person", "euclidean"}
        Normalisation.

    Returns
    -------
    signals : ndarray or StoredSignals of shape (n_trials, n_chans, n_times)
        Normalised; if they are stored, whenever they are read.
    """
    if isinstance(signals, StoredSignals):
        return signals.changed(PeopleMaps(statistics, how, np.searchsorted(people, subjects)))
    out = np.empty_like(signals)
    for statistic, mine in zip(statistics, trials_by_person(subjects)[1]):
        out[mine] = affine_map(statistic, how)(signals[mine])
    return out


def subject_labels(X, subjects, n_trials):
    """Return whose trial each one is, from the user or from the data.

    Parameters
    ----------
    X : object
        Trials, which may know it.
    subjects : array-like of shape (n_trials,) or None
        What the user says.
    n_trials : int
        Trials in X.

    Returns
    -------
    labels : ndarray of shape (n_trials,)
        Checked.
    """
    labels = find_labels(X) if subjects is None else subjects
    remedy = "pass one label per trial, or zeros if all trials are one person's."
    return check_labels("subjects", labels, n_trials, remedy)
