"""How candidates are combined: greedy selection with replacement, an average of the best few, or the best alone.

All three rules look at nothing but the probability that each candidate gave to the true class of held-out trials.
Greedy selection is Caruana et al., "Ensemble selection from libraries of models", ICML 2004.
"""

import numpy as np

from braindecode_censor._check import check_choice
from braindecode_censor.trials.balance import balanced_weights

__all__ = ["RULES", "balanced_loss", "choose_weights", "greedy_selection"]

_FLOOR = 1e-3  # a single trial that a candidate is sure and wrong about costs at most -log of this
_TIE = 1e-9  # losses that differ by less are equal
_ROUNDS = 30
_TOP = 3
_PARTS = 16  # bags that each lack some of the people, at most so many
_SHUFFLES = 8  # each deals the candidates into two bags
_FEW = 5  # so few candidates are not dealt out: half of them would leave little to choose from


def balanced_loss(true, weights):
    """Return the balanced negative log-likelihood."""
    return -(np.log(np.clip(true, _FLOOR, 1)) @ weights)


def choose_weights(probabilities, y, people, rule="greedy"):
    """Return how much each candidate counts in the ensemble.

    Notes
    -----
    A choice from few people follows their chance, the more so the more candidates there are. Greedy selection is
    therefore repeated in bags, and the weights are averaged: each bag lacks one person (or a part of them, if there
    are many) and, if there are six candidates or more, a random half of the candidates. The second is the bagging of
    Caruana et al. Two people are too few to leave one out.
    """
    check_choice("rule", rule, RULES)
    people, y = np.asarray(people), np.asarray(y)
    true = probabilities[:, np.arange(len(y)), y]
    return RULES[rule](true, y, people)


def _pick(true, y, people):
    loss = balanced_loss(true, balanced_weights(y, people))
    best = loss <= loss.min() + _TIE
    return best / best.sum()


def _top(true, y, people):
    loss = balanced_loss(true, balanced_weights(y, people))
    worst_kept = np.sort(loss)[min(_TOP, len(loss)) - 1]
    kept = loss <= worst_kept + _TIE
    return kept / kept.sum()


def _greedy(true, y, people):
    found = np.unique(people)
    parts = np.array_split(found, min(len(found), _PARTS)) if len(found) > 2 else [found[:0]]
    by_loss = np.argsort(balanced_loss(true, balanced_weights(y, people)), kind="stable")
    total = np.zeros(len(true))
    for number, candidates in enumerate(_deal_out(by_loss, len(parts))):
        trials = np.flatnonzero(~np.isin(people, parts[number % len(parts)]))
        balance = balanced_weights(y[trials], people[trials])
        total[candidates] += greedy_selection(true[np.ix_(candidates, trials)], balance)
    return total / total.sum()


def _deal_out(candidates, n_bags):
    """Return bags of candidates: two halves of many shuffles, or all of them each time if they are few."""
    if len(candidates) <= _FEW:
        return [candidates] * n_bags
    rng = np.random.default_rng(0)
    return [half for _ in range(_SHUFFLES) for half in np.array_split(rng.permutation(candidates), 2)]


def greedy_selection(true, weights):
    """Add the candidate that helps most, again and again, and return the best of all mixtures on the way."""
    chosen, total = np.zeros(len(true)), np.zeros(true.shape[1])
    best_loss, best, mixed = np.inf, None, np.empty_like(true)
    for size in range(1, _ROUNDS + 1):
        # the balanced loss of (total + true) / size, in place: with hundreds of candidates this is all the time
        np.clip(np.divide(np.add(total, true, out=mixed), size, out=mixed), _FLOOR, 1, out=mixed)
        loss = -(np.log(mixed, out=mixed) @ weights)
        tied = loss <= loss.min() + _TIE
        chosen, total = chosen + tied / tied.sum(), total + true[tied].mean(axis=0)
        reached = balanced_loss(total / size, weights)  # of what ties share, not of one of them
        if reached < best_loss - _TIE:
            best_loss, best = reached, chosen / size
    return best


#: Rule -> function of the true classes' probabilities, the classes and the people.
RULES = {"greedy": _greedy, "top": _top, "pick": _pick}
