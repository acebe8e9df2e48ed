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
TRIALWISE = {"trial_channel": zscore, "trial": scale_trials, "none": np.copy}
#: Normalisations that are made for the person's own statistics.
PERSONAL = ("subject", "euclidean")
#: Names of all normalisations. It is a view, so that an entry that somebody adds to ``TRIALWISE`` is known everywhere.
NORMALIZATIONS = ChainMap(TRIALWISE, dict.fromkeys(("population", *PERSONAL)))


def people_statistics(X, subjects, how, estimator="lwf"):
    """Compute every person's statistic."""
    check_choice("how", how, ("population", *PERSONAL))
    people, trials = trials_by_person(subjects)
    means = [mean_description(read_blocks(X, mine), how, estimator)[0] for mine in trials]
    return people, summarize(np.stack(means), how)


def normalize_people(X, subjects, how, estimator="lwf"):
    """Normalise every trial by itself or by its own person's statistic."""
    return np.asarray(change_people(X, subjects, how, estimator))


def change_people(X, subjects, how, estimator="lwf"):
    """Normalise as :func:`normalize_people` does; trials in a file stay there, and are normalised when they are read."""
    check_choice("how", how, sorted(set(NORMALIZATIONS) - {"population"}))
    signals, _ = read_signals(X)
    if how in TRIALWISE:
        return change_alone(signals, how)
    labels = subject_labels(X, subjects, len(signals))
    people, statistics = people_statistics(signals, labels, how, check_estimator(estimator))
    return change_by_person(signals, labels, people, statistics, how)


def trials_by_person(subjects):
    """Find everybody's trials by sorting once."""
    people, codes, counts = np.unique(subjects, return_inverse=True, return_counts=True)
    return people, np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])


def change_alone(signals, how):
    """Normalise every trial by itself."""
    change = TRIALWISE[how]
    if isinstance(signals, StoredSignals):
        return signals.changed(lambda block, _: change(block))
    return change(signals)


def change_alike(signals, affine):
    """Map all trials alike."""
    if isinstance(signals, StoredSignals):
        return signals.changed(lambda block, _: affine(block))
    return affine(signals)


def change_by_person(signals, subjects, people, statistics, how):
    """Normalise every trial by its own person's statistic."""
    if isinstance(signals, StoredSignals):
        return signals.changed(PeopleMaps(statistics, how, np.searchsorted(people, subjects)))
    out = np.empty_like(signals)
    for statistic, mine in zip(statistics, trials_by_person(subjects)[1]):
        out[mine] = affine_map(statistic, how)(signals[mine])
    return out


def subject_labels(X, subjects, n_trials):
    """Return whose trial each one is, from the user or from the data."""
    labels = find_labels(X) if subjects is None else subjects
    remedy = "pass one label per trial, or zeros if all trials are one person's."
    return check_labels("subjects", labels, n_trials, remedy)
