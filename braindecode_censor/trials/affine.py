"""What is known of a person's signals as one small array, and the affine map of channels that follows from it.

A statistic is the mean of what single trials say (:func:`describe_trials`), so that it can be taken over a
block, or trial by trial as they arrive, with the same answer. It is a plain array, so that statistics of many
people can be averaged, shrunk towards each other and saved.
"""

from dataclasses import dataclass

import numpy as np
from pyriemann.geometry.covariance import cov_est_functions, covariances

from braindecode_censor._check import check_choice

__all__ = [
    "Affine",
    "PeopleMaps",
    "affine_map",
    "check_estimator",
    "describe_trials",
    "is_constant",
    "mean_description",
    "shrink",
    "summarize",
]

# Trials handled at a time, so that the steps of a computation stay in the processor's cache.
CHUNK = 64
# A spread below eight rounding steps of single precision, in which networks compute, is no signal.
_ROUNDING = 8 * float(np.finfo(np.float32).eps)


def is_constant(mean, std):
    """Tell which channels carry nothing: the one rule for all normalisations."""
    return std <= _ROUNDING * np.sqrt(np.square(mean) + np.square(std))


def check_estimator(estimator):
    """Raise unless pyRiemann knows the covariance estimator."""
    return check_choice("estimator", estimator, cov_est_functions)


def describe_trials(X, how, estimator="lwf"):
    """Compute what every trial adds to its person's statistic."""
    describe = _covariances if how == "euclidean" else _moments
    parts = [describe(X[start : start + CHUNK], estimator) for start in range(0, len(X), CHUNK)]
    return np.concatenate(parts)


def mean_description(blocks, how, estimator="lwf"):
    """Average what trials say, of which a few are in memory at a time."""
    total, n_trials = 0.0, 0
    for block in blocks:
        total = total + describe_trials(block, how, estimator).sum(axis=0)
        n_trials += len(block)
    return total / n_trials, n_trials


def _moments(X, estimator):
    X = X.astype(np.float64)
    return np.stack([X.mean(axis=-1), np.square(X).mean(axis=-1)], axis=1)


def _covariances(X, estimator):
    X = X.astype(np.float64)
    constant = is_constant(X.mean(axis=-1), X.std(axis=-1))
    found = np.zeros((len(X), X.shape[1], X.shape[1]))
    # A channel that is constant in a trial has neither variance nor covariance there. It is left out before the
    # estimator sees it, because shrinkage would give it some of the others' variance.
    for pattern in np.unique(constant, axis=0):
        trials, alive = np.flatnonzero((constant == pattern).all(axis=1)), np.flatnonzero(~pattern)
        if len(alive):
            block = covariances(X[np.ix_(trials, alive)], estimator=estimator)
            found[np.ix_(trials, alive, alive)] = block.reshape(len(trials), len(alive), len(alive))
    return found


def summarize(parts, how):
    """Turn the mean of what trials say into a statistic."""
    if how == "euclidean":
        return parts
    mean, square = parts[..., 0, :], parts[..., 1, :]
    return np.stack([mean, np.maximum(square - np.square(mean), 0)], axis=-2)


def shrink(statistic, n_trials, population, prior):
    """Pull a person's statistic towards the population's, which counts as a number of trials."""
    share = np.asarray(n_trials / (prior + n_trials))[..., None, None]
    return (1 - share) * population + share * statistic


@dataclass(frozen=True)
class Affine:
    """The map ``x -> weight (x - offset)`` of the channels of every sample."""

    offset: np.ndarray
    weight: np.ndarray

    def __call__(self, X):
        """Map trials."""
        out = np.empty_like(X)
        for start in range(0, len(X), CHUNK):
            part = X[start : start + CHUNK] - self.offset[:, None]
            out[start : start + CHUNK] = np.matmul(self.weight, part)
        return out


class PeopleMaps:
    """The maps of several people, applied to trials of any of them."""

    def __init__(self, statistics, how, people):
        maps = [affine_map(statistic, how) for statistic in statistics]
        self.people = people
        self.offset = np.stack([one.offset for one in maps])
        weight = np.stack([one.weight for one in maps])
        self.is_diagonal = how != "euclidean"  # a hundredth of the work, and the same numbers
        self.weight = np.diagonal(weight, axis1=1, axis2=2).copy() if self.is_diagonal else weight

    def __call__(self, X, positions):
        """Map trials, each by its own person's map."""
        people = self.people[positions]
        part = X - self.offset[people][..., None]
        if self.is_diagonal:
            part *= self.weight[people][..., None]
        else:
            part = np.matmul(self.weight[people], part)
        return part.astype(X.dtype)


def affine_map(statistic, how):
    """Return the map that normalises signals with this statistic."""
    if how == "euclidean":
        return Affine(np.zeros(len(statistic)), _inverse_root(statistic))
    mean, std = statistic[0], np.sqrt(statistic[1])
    constant = is_constant(mean, std)
    return Affine(mean, np.diag(np.where(constant, 0, 1 / np.where(constant, 1, std))))


def _inverse_root(covariance):
    """Compute the inverse square root on the directions in which there is variance."""
    values, vectors = np.linalg.eigh(covariance)
    smallest = len(values) * np.finfo(np.float64).eps * max(values[-1], 0)
    root = np.where(values > smallest, 1 / np.sqrt(np.where(values > smallest, values, 1)), 0)
    return vectors * root @ vectors.T
