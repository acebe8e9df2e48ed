"""Normalisations of signals: in memory at once, or block by block when they are read from a file."""

from collections import ChainMap

import numpy as np

from braindecode_censor._check import check_choice
from braindecode_censor.trials.affine import (
    CHUNK,
    SubjectMaps,
    affine_map,
    is_constant,
    level_of,
    mean_description,
    summarize,
)
from braindecode_censor.trials.dataset import read_signals
from braindecode_censor.trials.stored import StoredSignals, read_blocks
from braindecode_censor.trials.subject_labels import read_labels

__all__ = ["NORMALIZATIONS", "SUBJECTWISE", "TRIALWISE", "normalize_subjects", "subject_statistics", "zscore"]


def zscore(X):
    """Standardise each channel of each trial over time."""
    return _by_chunks(X, (-1,))


def scale_trials(X):
    """Centre each channel of each trial over time and divide the whole trial by one number."""
    return _by_chunks(X, (-2, -1))


def _by_chunks(X, axes):
    out = np.empty_like(X)
    for start in range(0, len(X), CHUNK):
        out[start : start + CHUNK] = _standardize(X[start : start + CHUNK], axes)
    return out


def _standardize(X, axes):
    # The signals are divided by their own size first, so that neither volts nor a huge unit leave the range of
    # squares. The divisor must be common to the samples that share one standard deviation.
    largest = np.abs(X).max(axis=axes, keepdims=True)
    X = X / np.where(largest > 0, largest, 1)
    mean = X.mean(axis=-1, keepdims=True)
    X = X - mean
    constant = is_constant(mean, X.std(axis=-1, keepdims=True))
    X = np.where(constant, 0, X)
    scale = np.sqrt(np.square(X).mean(axis=axes, keepdims=True))
    return X / np.where(scale > 0, scale, 1)


#: Normalisations of single trials: name -> function of signals.
TRIALWISE = {"trial_channel": zscore, "trial": scale_trials, "none": np.copy}
#: Normalisations by the statistic of the subject.
SUBJECTWISE = ("subject", "euclidean")
#: Names of all normalisations. It is a view, so that an entry that a user adds to ``TRIALWISE`` is valid everywhere.
NORMALIZATIONS = ChainMap(TRIALWISE, dict.fromkeys(("population", *SUBJECTWISE)))


def subject_statistics(X, subjects, strategy, estimator="lwf"):
    """Return the distinct subjects, the statistic of each, (n_subjects, d, n_chans), and the spread of log-amplitudes.

    The spread is that of single trials about the subject's log-amplitude.
    """
    check_choice("strategy", strategy, ("population", *SUBJECTWISE))
    labels, trials = _trials_by_subject(subjects)
    means, levels = zip(*(mean_description(read_blocks(X, idx), strategy, estimator) for idx in trials))
    statistics = summarize(np.stack(means), strategy)
    distances = [own - level for own, level in zip(levels, level_of(statistics, strategy))]
    spreads = [np.sqrt(np.square(d[np.isfinite(d)]).sum() / len(d)) for d in distances]
    return labels, statistics, np.array(spreads)


def normalize_subjects(X, subjects, strategy, estimator="lwf"):
    """Normalise every trial by itself or by its subject's statistic; signals in a file are not read yet."""
    check_choice("strategy", strategy, sorted(set(NORMALIZATIONS) - {"population"}))
    signals, _ = read_signals(X)
    if strategy in TRIALWISE:
        return map_trials(signals, TRIALWISE[strategy])
    trial_labels = read_labels(X, subjects, len(signals))
    labels, statistics, _ = subject_statistics(signals, trial_labels, strategy, estimator)
    return map_subjects(signals, trial_labels, labels, statistics, strategy)


def map_trials(signals, function):
    """Apply one function to all trials."""
    if isinstance(signals, StoredSignals):
        return signals.mapped(lambda block, _: function(block))
    return function(signals)


def map_subjects(signals, trial_labels, labels, statistics, strategy):
    """Apply to every trial the map that follows from its subject's statistic."""
    if isinstance(signals, StoredSignals):
        return signals.mapped(SubjectMaps(statistics, strategy, np.searchsorted(labels, trial_labels)))
    out = np.empty_like(signals)
    for statistic, idx in zip(statistics, _trials_by_subject(trial_labels)[1]):
        out[idx] = affine_map(statistic, strategy)(signals[idx])
    return out


def _trials_by_subject(subjects):
    """Return the distinct subjects and the trials of each, by sorting once."""
    labels, codes, counts = np.unique(subjects, return_inverse=True, return_counts=True)
    return labels, np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
