"""Held-out probabilities, the currency of the search: every rule, table and figure is computed from them.

For the next person all pairs vote. For an honest score of person t only the models trained without t may be used,
and weights are chosen from what these very models say about t's partners, whom they have not seen either.
"""

import numpy as np

from braindecode_censor.search.folds import partners_of
from braindecode_censor.search.weights import choose_weights

__all__ = ["HeldOut", "balanced_accuracy"]


def balanced_accuracy(probabilities, y):
    """Return the mean over classes of the share of trials that are decoded rightly."""
    right = probabilities.argmax(axis=1) == y
    return float(np.mean([right[y == k].mean() for k in np.unique(y)]))


class HeldOut:
    """What every candidate says about people it has not seen.

    Notes
    -----
    Trials whose labels a candidate was given, as in ``target="labeled"``, have NaN for probabilities and are left
    out of every choice and score.
    """

    def __init__(self, labels, pairs):
        self.labels = [np.asarray(y) for y in labels]
        self.pairs = list(pairs)
        self.found = {}
        self._nested = {}  # scores that were computed, as nothing is added
        self._partners = {person: partners_of(person, self.pairs) for person in range(len(self.labels))}

    def add(self, candidate, position, first, second):
        """Note what a model trained without a pair says about the two."""
        pair = self.pairs[position]
        for person, probabilities in zip(pair, (first, second)):
            if len(probabilities) != len(self.labels[person]):
                raise ValueError(
                    f"{len(probabilities)} probabilities for {len(self.labels[person])} trials of a person."
                )
        self._nested.clear()
        self.found.setdefault(candidate, {})[position] = dict(zip(pair, (first, second)))

    def forget(self, candidate):
        """Drop all that a candidate said, because it is trained anew in another way."""
        self._nested.clear()
        self.found.pop(candidate, None)

    def shared_pairs(self, candidates):
        """Return the positions of pairs for which all candidates were trained."""
        return sorted(set.intersection(*(set(self.found.get(name, {})) for name in candidates)))

    def of_population(self, candidates):
        """Return what is known for the choice of tomorrow's decoder."""
        shared = set(self.shared_pairs(candidates))
        people = self._tested(shared)
        return self._stack(candidates, {person: self._without(person, shared) for person in people})

    def for_choice(self, person, candidates, shared=None):
        """Return all that may be known when weights are chosen for the test of a person."""
        shared = set(self.shared_pairs(candidates)) if shared is None else shared
        found = self._partners.get(person, {})
        return self._stack(candidates, {v: [e] for v, e in sorted(found.items()) if e in shared})

    def for_test(self, person, candidates, shared=None):
        """Return what the models that have not seen a person say about them."""
        shared = set(self.shared_pairs(candidates)) if shared is None else shared
        probabilities, y, _ = self._stack(candidates, {person: self._without(person, shared)})
        return probabilities, y

    def nested_scores(self, candidates, rule="greedy"):
        """Return the strictly nested score of a rule for every person."""
        asked = (*candidates, rule)
        if asked not in self._nested:
            self._nested[asked] = self._score_nested(candidates, rule)
        return self._nested[asked].copy()

    def _score_nested(self, candidates, rule):
        scores, shared = np.full(len(self.labels), np.nan), set(self.shared_pairs(candidates))
        for person in self._tested(shared):
            weights = choose_weights(*self.for_choice(person, candidates, shared), rule)
            probabilities, y = self.for_test(person, candidates, shared)
            scores[person] = balanced_accuracy(np.tensordot(weights, probabilities, 1), y)
        return scores

    def scores(self, candidate):
        """Return the score of one candidate for every person."""
        if not self.shared_pairs([candidate]):
            return np.full(len(self.labels), np.nan)
        probabilities, y, people = self.of_population([candidate])
        right, n_classes = probabilities[0].argmax(axis=1) == y, probabilities.shape[2]
        size, cells = len(self.labels) * n_classes, people * n_classes + y
        total = np.bincount(cells, minlength=size).reshape(-1, n_classes)
        hits = np.bincount(cells, weights=right, minlength=size).reshape(-1, n_classes)
        shares = np.divide(hits, total, out=np.zeros_like(hits), where=total > 0)
        occur = (total > 0).sum(axis=1)
        return np.divide(shares.sum(axis=1), occur, out=np.full(len(occur), np.nan), where=occur > 0)

    def _tested(self, shared):
        return sorted({person for position in shared for person in self.pairs[position]})

    def _without(self, person, shared):
        return sorted(position for position in self._partners[person].values() if position in shared)

    def _stack(self, candidates, models):
        """Stack the averages over models, given for each person as positions of pairs."""
        parts = [self._averages(candidates, person, positions) for person, positions in models.items()]
        y = np.concatenate([self.labels[person] for person in models])
        people = np.concatenate([np.full(len(self.labels[person]), person) for person in models])
        probabilities = np.concatenate(parts, axis=1)
        known = np.isfinite(probabilities).all(axis=(0, 2))
        return probabilities[:, known], y[known], people[known]

    def _averages(self, candidates, person, positions):
        each = [[self.found[name][position][person] for position in positions] for name in candidates]
        return np.asarray(each, dtype=float).mean(axis=1)
