"""Weights of candidates in an ensemble: greedy selection with replacement, the best few, or the best one.

All three rules look at nothing but the probability that each candidate gave to the true class of held-out trials.
Greedy selection is Caruana et al., "Ensemble selection from libraries of models", ICML 2004.
"""

import numpy as np

from braindecode_censor._check import check_choice
from braindecode_censor.trials.balance import balanced_weights

__all__ = ["ENSEMBLE_RULES", "balanced_loss", "choose_weights", "greedy_selection"]

_FLOOR = 1e-3  # a single trial that a candidate is sure and wrong about costs at most -log of this
_TIE = 1e-9  # losses that differ by less are equal
_ROUNDS = 30
_TOP = 3
_MAX_BAGS = 16  # that each lack some of the subjects
_SHUFFLES = 8  # each splits the candidates into two bags
_FEW = 5  # candidates are not split: half of them would leave little to choose from


def balanced_loss(true, weights):
    """Return the balanced negative log-likelihood."""
    return -(np.log(np.clip(true, _FLOOR, 1)) @ weights)


def choose_weights(probabilities, y, subjects, rule="greedy"):
    """Return the weight of each candidate, from probabilities of shape (n_candidates, n_trials, n_classes).

    Notes
    -----
    A choice by few subjects follows chance, the more so the more candidates there are. Greedy selection is therefore
    repeated in bags, and the weights are averaged: each bag lacks one subject (or a group of them, if there are many)
    and, if there are six candidates or more, a random half of the candidates. The second is the bagging of Caruana et
    al. Two subjects are too few to leave one out.
    """
    check_choice("rule", rule, ENSEMBLE_RULES)
    subjects, y = np.asarray(subjects), np.asarray(y)
    true = probabilities[:, np.arange(len(y)), y]
    return ENSEMBLE_RULES[rule](true, y, subjects)


def _pick(true, y, subjects):
    loss = balanced_loss(true, balanced_weights(y, subjects))
    best = loss <= loss.min() + _TIE
    return best / best.sum()


def _top(true, y, subjects):
    loss = balanced_loss(true, balanced_weights(y, subjects))
    is_best = loss <= np.sort(loss)[min(_TOP, len(loss)) - 1] + _TIE
    return is_best / is_best.sum()


def _greedy(true, y, subjects):
    labels = np.unique(subjects)
    groups = np.array_split(labels, min(len(labels), _MAX_BAGS)) if len(labels) > 2 else [labels[:0]]
    by_loss = np.argsort(balanced_loss(true, balanced_weights(y, subjects)), kind="stable")
    total = np.zeros(len(true))
    for number, candidates in enumerate(_bag_candidates(by_loss, len(groups))):
        trials = np.flatnonzero(~np.isin(subjects, groups[number % len(groups)]))
        balance = balanced_weights(y[trials], subjects[trials])
        total[candidates] += greedy_selection(true[np.ix_(candidates, trials)], balance)
    return total / total.sum()


def _bag_candidates(candidates, n_bags):
    """Return bags of candidates: two halves of many shuffles, or all of them each time if they are few."""
    if len(candidates) <= _FEW:
        return [candidates] * n_bags
    rng = np.random.default_rng(0)
    return [half for _ in range(_SHUFFLES) for half in np.array_split(rng.permutation(candidates), 2)]


def greedy_selection(true, weights):
    """Add the candidate that helps most, again and again, and return the best of all mixtures on the way."""
    counts, total = np.zeros(len(true)), np.zeros(true.shape[1])
    best_loss, best, mixed = np.inf, None, np.empty_like(true)
    for size in range(1, _ROUNDS + 1):
        # The balanced loss of (total + true) / size, in place: with hundreds of candidates this takes all the time.
        np.clip(np.divide(np.add(total, true, out=mixed), size, out=mixed), _FLOOR, 1, out=mixed)
        loss = -(np.log(mixed, out=mixed) @ weights)
        tied = loss <= loss.min() + _TIE
        counts, total = counts + tied / tied.sum(), total + true[tied].mean(axis=0)
        reached = balanced_loss(total / size, weights)  # of what ties share, not of one of them
        if reached < best_loss - _TIE:
            best_loss, best = reached, counts / size
    return best


#: Rule -> function of the true classes' probabilities, the classes and the subjects.
ENSEMBLE_RULES = {"greedy": _greedy, "top": _top, "pick": _pick}
