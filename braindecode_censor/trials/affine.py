"""Statistics of a subject's signals as small arrays, and the affine maps of channels that follow from them.

A statistic follows from the mean of descriptions of single trials (:func:`mean_description`). So it can be computed
from a block, or trial by trial as they arrive, with the same result.
"""

from dataclasses import dataclass

import numpy as np

from braindecode_censor.trials.amplitude import log_amplitude

__all__ = [
    "CHUNK",
    "Affine",
    "SubjectMaps",
    "affine_map",
    "is_constant",
    "level_of",
    "mean_description",
    "rescale",
    "shrink",
    "summarize",
]

#: Trials that are handled at a time, so that the steps of a computation stay in the processor's cache.
CHUNK = 64
# A spread below eight rounding steps of single precision, in which networks compute, is no signal.
_ROUNDING = 8 * float(np.finfo(np.float32).eps)


def is_constant(mean, std):
    """Return which channels hold no signal, by the same rule for all normalisations."""
    return std <= _ROUNDING * np.sqrt(np.square(mean) + np.square(std))


def mean_description(blocks, strategy, estimator="lwf"):
    """Return the mean description of all trials, and the log-amplitude of each."""
    total, levels = 0.0, []
    for block in blocks:
        X = block.astype(np.float64)
        description = _covariances(X, estimator) if strategy == "euclidean" else _moments(X)
        total = total + description.sum(axis=0)
        levels.append(level_of(summarize(description, strategy), strategy))
    levels = np.concatenate(levels)
    return total / len(levels), levels


def _moments(X):
    return np.stack([X.mean(axis=-1), np.square(X).mean(axis=-1)], axis=1)


def _covariances(X, estimator):
    constant = is_constant(X.mean(axis=-1), X.std(axis=-1))
    matrices = np.zeros((len(X), X.shape[1], X.shape[1]))
    # A channel that is constant in a trial has neither variance nor covariance there. The estimator does not see it,
    # because shrinkage would give it some of the others' variance.
    for pattern in np.unique(constant, axis=0):
        trials, chans = np.flatnonzero((constant == pattern).all(axis=1)), np.flatnonzero(~pattern)
        if len(chans):
            block = _estimate(X[np.ix_(trials, chans)], estimator)
            matrices[np.ix_(trials, chans, chans)] = block.reshape(len(trials), len(chans), len(chans))
    return matrices


def _estimate(X, estimator):
    """Return covariance matrices by an estimator of pyRiemann, which is not needed, or imported, for "lwf"."""
    if estimator != "lwf":
        from pyriemann.geometry.covariance import covariances

        return covariances(X, estimator=estimator)
    X = X - X.mean(axis=-1, keepdims=True)
    n_chans, n_times = X.shape[1:]
    matrices = X @ np.swapaxes(X, 1, 2) / n_times
    size = np.trace(matrices, axis1=1, axis2=2) / n_chans
    square = np.square(matrices).sum(axis=(1, 2))
    distance = square - n_chans * size**2
    noise = (np.square(np.square(X).sum(axis=1)).sum(axis=1) / n_times - square) / n_times
    shrinkage = np.where(noise > 0, np.minimum(noise, distance) / np.where(distance > 0, distance, np.inf), 0)
    return (1 - shrinkage)[:, None, None] * matrices + (shrinkage * size)[:, None, None] * np.eye(n_chans)


def summarize(description, strategy):
    """Return the statistic that follows from a mean description."""
    if strategy == "euclidean":
        return description
    mean, square = description[..., 0, :], description[..., 1, :]
    return np.stack([mean, np.maximum(square - np.square(mean), 0)], axis=-2)


def level_of(statistic, strategy):
    """Return the log-amplitude of a statistic."""
    is_covariance = strategy == "euclidean"
    return log_amplitude(
        np.diagonal(statistic, axis1=-2, axis2=-1) if is_covariance else statistic[..., 1, :]
    )


def rescale(statistic, strategy, log_gain):
    """Return the statistic of the same signals times a gain."""
    gain = np.exp(np.asarray(log_gain))[..., None, None]
    return statistic * (gain**2 if strategy == "euclidean" else np.concatenate([gain, gain**2], axis=-2))


def shrink(statistic, n_trials, population, prior):
    """Shrink a subject's statistic towards the population's, which counts as `prior` trials."""
    weight = n_trials / (prior + n_trials)
    return (1 - weight) * population + weight * statistic


@dataclass(frozen=True)
class Affine:
    """The map ``x -> weight (x - offset)`` of the channels of every sample."""

    offset: np.ndarray
    weight: np.ndarray

    def __call__(self, X):
        """Map trials of one subject."""
        out = np.empty_like(X)
        for start in range(0, len(X), CHUNK):
            centred = X[start : start + CHUNK] - self.offset[:, None]
            out[start : start + CHUNK] = np.matmul(self.weight, centred)
        return out


class SubjectMaps:
    """The maps of several subjects, applied to any of their trials."""

    def __init__(self, statistics, strategy, subject_idx):
        maps = [affine_map(statistic, strategy) for statistic in statistics]
        self.subject_idx = subject_idx
        self.offset = np.stack([one.offset for one in maps])
        weight = np.stack([one.weight for one in maps])
        # A diagonal map takes a hundredth of the time, with the same numbers.
        self.is_diagonal = strategy != "euclidean"
        self.weight = np.diagonal(weight, axis1=1, axis2=2).copy() if self.is_diagonal else weight

    def __call__(self, X, trial_idx):
        """Map trials, each by the map of its subject."""
        idx = self.subject_idx[trial_idx]
        out = X - self.offset[idx][..., None]
        if self.is_diagonal:
            out *= self.weight[idx][..., None]
        else:
            out = np.matmul(self.weight[idx], out)
        return out.astype(X.dtype)


def affine_map(statistic, strategy):
    """Return the map that normalises signals with this statistic."""
    if strategy == "euclidean":
        return Affine(np.zeros(len(statistic)), _inverse_root(statistic))
    mean, std = statistic[0], np.sqrt(statistic[1])
    constant = is_constant(mean, std)
    return Affine(mean, np.diag(np.where(constant, 0, 1 / np.where(constant, 1, std))))


def _inverse_root(covariance):
    """Return the inverse square root on the directions in which there is variance."""
    values, vectors = np.linalg.eigh(covariance)
    smallest = len(values) * np.finfo(np.float64).eps * max(values[-1], 0)
    root = np.where(values > smallest, 1 / np.sqrt(np.where(values > smallest, values, 1)), 0)
    return vectors * root @ vectors.T
