"""What one subject's trials teach: class proportions, and regressions of the ensemble's soft labels on views of them.

The answer to a trial is the softmax of w₀ log P + w₁ b + Σ aⱼ log Qⱼ: P is the ensemble's probability, b the offset
with which the block has the expected proportions, and Qⱼ the answer of a ridge regression on view j that has not seen
the trial. The weights are learned on held-out subjects. A second round, in which the soft labels are these answers,
gains nothing.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from braindecode_censor.decoder.regression import ViewRegression, regress
from braindecode_censor.trials.balance import balanced_weights

__all__ = [
    "Lesson",
    "answer",
    "estimate_proportions",
    "find_offset",
    "learn_weights",
    "log_probabilities",
    "stack_terms",
    "teach",
]

_FLOOR = 1e-4  # of a probability
_STEPS, _STEP = 50, 0.7  # of the offset's fixed point
_EM_STEPS = 20
_CONFIDENT = 2  # power of the soft labels
_KNOWN = 4  # soft labels that a known one counts as
_PULL = 0.05  # of the weights, towards the ensemble's own answer
_NOTHING = 0.01  # weight that is as good as none


@dataclass
class Lesson:
    """What a block taught."""

    logs: np.ndarray  # (n_trials, n_classes) of the ensemble
    offset: np.ndarray  # (n_classes,), zero where the proportions are unknown
    regressions: list  # of each view, None for a view without a kernel

    @property
    def terms(self):
        """Terms of the block's own trials, of shape (2 + n_views, n_trials, n_classes)."""
        none = np.zeros_like(self.logs)
        return stack_terms(self.logs, self.offset, [none if r is None else r.log_q for r in self.regressions])

    def functions(self, vectors):
        """Return the regressions as functions of features, for trials outside the block."""
        return [None if r is None else ViewRegression.of(r, v) for r, v in zip(self.regressions, vectors)]


def stack_terms(logs, offset, log_q):
    """Return what is weighted and summed to logits."""
    return np.stack([logs, np.broadcast_to(offset, logs.shape), *log_q])


def answer(terms, weights):
    """Return the logarithms of taught probabilities."""
    return log_softmax(np.tensordot(weights, terms, 1), axis=1)


def log_probabilities(probabilities):
    """Return logarithms of probabilities that are not too small."""
    return np.log(np.clip(probabilities, _FLOOR, 1))


def find_offset(logs, proportions):
    """Return b with sum 0 for which the mean of softmax(logs + log proportions + b) is the proportions.

    References
    ----------
    Saerens, Latinne and Decaestecker (2002), Adjusting the outputs of a classifier to new a priori probabilities.
    """
    odds, log_share, offset = softmax(logs, axis=1) * proportions, log_probabilities(proportions), 0.0
    for _ in range(_STEPS):
        shifted = odds * np.exp(offset)
        share = (shifted / shifted.sum(axis=1, keepdims=True)).mean(axis=0)
        offset = offset + _STEP * (log_share - log_probabilities(share))
    return offset - offset.mean()


def estimate_proportions(logs):
    """Return the class proportions of a block by expectation maximisation, with a prior of one trial per class."""
    n_trials, n_classes = logs.shape
    odds, share = softmax(logs, axis=1), np.full(n_classes, 1 / n_classes)
    for _ in range(_EM_STEPS):
        shifted = odds * share
        share = ((shifted / shifted.sum(axis=1, keepdims=True)).sum(axis=0) + 1) / (n_trials + n_classes)
    return share


def teach(logs, kernels, proportions=None, y=None):
    """Return the :class:`Lesson` of a block; proportions are None if unknown, labels -1 where unknown."""
    n_trials, n_classes = logs.shape
    y = np.full(n_trials, -1) if y is None else y
    is_known = y >= 0
    offset = np.zeros(n_classes)
    if proportions is not None and not is_known.all():
        # The trials without labels are expected to have what the labelled ones lack.
        lacking = n_trials * proportions - np.bincount(y[is_known], minlength=n_classes)
        expected = np.maximum(lacking, 0.5 * proportions)
        offset = find_offset(logs[~is_known], expected / expected.sum())
    labels = softmax(_CONFIDENT * (logs + offset), axis=1)
    labels[is_known] = np.eye(n_classes)[y[is_known]]
    weights = np.ones(n_trials)
    if proportions is not None:
        weights = (labels / np.maximum(labels.sum(axis=0), 1)).sum(axis=1)
    weights[is_known] *= _KNOWN
    weights /= weights.mean()
    return Lesson(logs, offset, [None if k is None else regress(k, labels, weights) for k in kernels])


def learn_weights(terms, y, blocks):
    """Return weights >= 0 that maximise the likelihood of labels, balanced over blocks and the classes of a block.

    Parameters
    ----------
    terms : ndarray of shape (n_terms, n_trials, n_classes)
        Terms of the logits.
    y, blocks : ndarray of shape (n_trials,)
        Encoded label and block of every trial.
    """
    start, trial_weights = np.eye(len(terms))[0], balanced_weights(y, blocks)
    one_hot = np.eye(terms.shape[2])[y]

    def loss(weights):
        log_p = answer(terms, weights)
        residual = trial_weights[:, None] * (np.exp(log_p) - one_hot)
        value = -(trial_weights[:, None] * one_hot * log_p).sum() + _PULL * ((weights - start) ** 2).sum()
        return value, np.tensordot(terms, residual, 2) + 2 * _PULL * (weights - start)

    bounds = [(0, None)] * len(terms)
    weights = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    return np.where(weights < _NOTHING, 0, weights)  # A view without weight is not computed.
