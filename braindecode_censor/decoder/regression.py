"""Ridge regression of soft labels on one view of a subject's trials, with leave-one-out answers in closed form."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

__all__ = ["DualRegression", "ViewRegression", "kernel_of", "moments", "regress", "standardise"]

_RIDGES = np.geomspace(0.01, 30, 8)
_SHARPNESS = np.geomspace(0.5, 32, 13)
_MOST = 5.0  # standard deviations, so that one trial with an artefact does not decide


@dataclass
class DualRegression:
    """A regression on the kernel of a block: scores are rows of the kernel, plus 1, times `dual`."""

    dual: np.ndarray  # (n_trials, n_classes)
    sharpness: float  # factor of the scores before softmax
    log_q: np.ndarray  # (n_trials, n_classes): leave-one-out log-probabilities

    def log_q_of(self, kernel):
        """Return the log-probabilities of trials outside the block."""
        return log_softmax(self.sharpness * (kernel + 1) @ self.dual, axis=1)


@dataclass
class ViewRegression:
    """The same as a function of features."""

    mean: np.ndarray
    inverse: np.ndarray
    coef: np.ndarray  # (n_features, n_classes)
    intercept: np.ndarray

    @classmethod
    def of(cls, regression, vectors):
        """Return the regression of a block with these features."""
        mean, inverse = moments(vectors)
        dual = regression.sharpness * regression.dual
        return cls(mean, inverse, standardise(vectors, mean, inverse).T @ dual, dual.sum(axis=0))

    def log_q(self, vectors):
        """Return the log-probabilities of trials."""
        return log_softmax(standardise(vectors, self.mean, self.inverse) @ self.coef + self.intercept, axis=1)


def moments(vectors):
    """Return mean and inverse standard deviation of features, zero for constant ones."""
    mean, spread = vectors.mean(axis=0), vectors.std(axis=0)
    is_constant = spread <= 1e-9 * (1 + np.abs(mean))
    return mean, np.where(is_constant, 0, 1 / np.where(is_constant, 1, spread))


def standardise(vectors, mean, inverse):
    """Return standardised features, limited and divided by the root of their number."""
    return np.clip((vectors - mean) * inverse, -_MOST, _MOST) / np.sqrt(vectors.shape[1])


def kernel_of(vectors):
    """Return the kernel of a block's features, (n_trials, n_trials); None without features."""
    if vectors is None:
        return None
    z = standardise(vectors, *moments(vectors))
    return z @ z.T


def regress(kernel, labels, weights):
    """Return the regression of soft labels, (n_trials, n_classes), with ridge and sharpness by leave-one-out.

    The kernel gets a constant for the intercept. `weights` are those of trials, with mean 1.
    """
    root = np.sqrt(weights)[:, None]
    values, axes = np.linalg.eigh(root * (kernel + 1) * root.T)
    values, projected = np.maximum(values, 0), axes.T @ (root * labels)
    shrunk = values / (values + _RIDGES[:, None])  # (n_ridges, n_trials)
    leverage = np.minimum(shrunk @ (axes**2).T, 1 - 1e-9)
    residuals = (root * labels - axes @ (shrunk[:, :, None] * projected)) / (1 - leverage)[:, :, None]
    best = int((residuals**2).sum(axis=(1, 2)).argmin())
    log_q = log_softmax(_SHARPNESS[:, None, None] * (labels - residuals[best] / root), axis=2)
    k = int((weights[:, None] * labels * log_q).sum(axis=(1, 2)).argmax())
    dual = root * (axes @ (projected / (values + _RIDGES[best])[:, None]))
    return DualRegression(dual, float(_SHARPNESS[k]), log_q[k])
