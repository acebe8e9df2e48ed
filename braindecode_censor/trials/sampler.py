"""Batches that hold several trials of several subjects, which is what a censoring penalty needs."""

import numpy as np

from braindecode_censor._check import check_size

__all__ = ["SubjectBatches", "batch_shape"]

# A class that has fewer companions than this in a batch gives the task loss little to contrast it with.
_CLASSES_WANTED = 8
# Trials per subject below which a subject's distribution is hardly visible in a batch (score estimators
# want eight and more); per cell of subject and class four, or two when the classes are many.
_TRIALS_WANTED = 8


def batch_shape(batch_size, n_subjects, n_classes=1, subjects_per_batch=None):
    """Choose P subjects x K classes x Q trials that fill a batch."""
    wanted = min(n_classes, _CLASSES_WANTED)
    least = _TRIALS_WANTED if n_classes == 1 else 4 if n_classes <= 4 else 2
    trials = max(least, batch_size // (n_subjects * wanted))
    subjects = subjects_per_batch or max(2, batch_size // (wanted * trials))
    subjects = min(n_subjects, subjects)
    classes = min(n_classes, max(1, batch_size // (subjects * trials)))
    if n_classes > 1:  # one class alone would leave the task loss nothing to tell apart
        classes = min(n_classes, max(2, classes))
    return subjects, classes, max(1, batch_size // (subjects * classes))


class SubjectBatches:
    """Batches of P subjects x Q trials, or of P subjects x K classes x Q trials.

    A cell is a subject, or a subject and a class. Every cell deals its trials in random order, each once per
    round, so within a cell all trials are used equally often; and it never deals more than it has, so a batch
    holds no trial twice (a pair of equal trials would count as perfect agreement in a kernel). An epoch has
    as many batches as the plain one.
    """

    def __init__(self, subjects, y=None, batch_size=64, subjects_per_batch=None, random_state=0):
        subjects = np.unique(np.asarray(subjects), return_inverse=True)[1]
        classes = np.zeros_like(subjects) if y is None else np.unique(np.asarray(y), return_inverse=True)[1]
        check_size("batch_size", batch_size, minimum=2)
        if subjects_per_batch is not None:
            check_size("subjects_per_batch", subjects_per_batch)
        self.n_trials = len(subjects)
        self.cells = {
            (m, c): np.flatnonzero((subjects == m) & (classes == c))
            for m, c in sorted(set(zip(subjects.tolist(), classes.tolist())))
        }
        self.n_subjects, self.n_classes = int(subjects.max()) + 1, int(classes.max()) + 1
        size = min(batch_size, self.n_trials)
        self.shape = batch_shape(size, self.n_subjects, self.n_classes, subjects_per_batch)
        rng = np.random.default_rng(random_state)
        n_people, n_kinds, n_each = self.shape
        self._subjects = _Deck(range(self.n_subjects), n_people, rng)
        self._classes = _Deck(range(self.n_classes), n_kinds, rng)
        self._decks = {cell: _Deck(trials, n_each, rng) for cell, trials in self.cells.items()}

    def __len__(self):
        return max(1, self.n_trials // int(np.prod(self.shape)))

    def __iter__(self):
        return (batch.tolist() for batch in self.arrays())

    def arrays(self):
        """Deal the batches of one epoch, as iterating does."""
        for _ in range(len(self)):
            yield self._batch()

    def share(self):
        """Probability of every trial to be the one behind a random place in a batch."""
        share = np.zeros(self.n_trials)
        for trials in self.cells.values():
            share[trials] = min(len(trials), self.shape[2]) / len(trials)
        return share / share.sum()

    def _batch(self):
        # sorted, so that batches of the same subjects have identical labels, and what depends on labels is cached
        subjects, classes = sorted(self._subjects.deal().tolist()), sorted(self._classes.deal().tolist())
        drawn = [self._decks[m, c].deal() for m in subjects for c in classes if (m, c) in self._decks]
        if not drawn:  # none of these subjects has any of these classes; rare, and an empty batch is none
            return self._batch()
        return np.concatenate(drawn)


class _Deck:
    """Cards dealt in random order, each once per round, never the same one twice in a hand."""

    def __init__(self, cards, hand, rng):
        self.cards = np.asarray(cards)
        self.hand, self.rng = min(hand, len(self.cards)), rng
        self.order, self.pile, self.n_pile, self.dealt = self.cards[:0], self.cards[:0], 0, 0

    def deal(self):  # called for every cell of every batch of every member of a fleet: short, therefore
        end = self.dealt + self.hand
        if end > self.n_pile:
            self._shuffle()
            end = self.hand
        self.dealt = end
        return self.pile[end - self.hand : end]

    def _shuffle(self):
        left, order = self.order[self.dealt :], self.rng.permutation(len(self.cards))
        if len(left):
            # The hand begins with what is left of the old round; the new round must not repeat that in it.
            stays = np.ones(len(order), dtype=bool)
            stays[left] = False
            new = order[stays[order]][: self.hand - len(left)]
            stays[left], stays[new] = True, False
            order = np.concatenate([left, new, order[stays[order]]])
        self.order, self.pile, self.n_pile = order, self.cards[order], len(order)
