"""Batches that hold several trials of several subjects, as a censoring penalty needs them."""

import numpy as np

from braindecode_censor._check import check_size

__all__ = ["SubjectBatches", "batch_shape"]

# With fewer other classes in a batch, the task loss has little contrast.
_MAX_CLASSES = 8
# With fewer trials per subject a batch says little of the subject's distribution (score estimators want eight and
# more). Per cell of subject and class four suffice, or two when the classes are many.
_MIN_TRIALS = 8


def batch_shape(batch_size, n_subjects, n_classes=1, subjects_per_batch=None):
    """Return P subjects, K classes and Q trials that fill a batch of P x K x Q trials."""
    max_classes = min(n_classes, _MAX_CLASSES)
    min_trials = _MIN_TRIALS if n_classes == 1 else 4 if n_classes <= 4 else 2
    trials = max(min_trials, batch_size // (n_subjects * max_classes))
    subjects = subjects_per_batch or max(2, batch_size // (max_classes * trials))
    subjects = min(n_subjects, subjects)
    classes = min(n_classes, max(1, batch_size // (subjects * trials)))
    if n_classes > 1:  # With one class alone the task loss has no contrast.
        classes = min(n_classes, max(2, classes))
    return subjects, classes, max(1, batch_size // (subjects * classes))


class SubjectBatches:
    """Batches of P subjects x Q trials, or of P subjects x K classes x Q trials.

    A cell is a subject, or a subject and a class. Every cell draws its trials in random order, each once per round, so
    within a cell all trials are used equally often. It never draws more than it has, so a batch holds no trial twice:
    a pair of equal trials would count as perfect agreement in a kernel. An epoch has as many batches as without cells.
    """

    def __init__(self, subjects, y=None, batch_size=64, subjects_per_batch=None, random_state=0):
        subjects = np.unique(np.asarray(subjects), return_inverse=True)[1]
        classes = np.zeros_like(subjects) if y is None else np.unique(np.asarray(y), return_inverse=True)[1]
        check_size("batch_size", batch_size, minimum=2)
        if subjects_per_batch is not None:
            check_size("subjects_per_batch", subjects_per_batch)
        self.n_trials = len(subjects)
        n_subjects, n_classes = int(subjects.max()) + 1, int(classes.max()) + 1
        size = min(batch_size, self.n_trials)
        self.shape = batch_shape(size, n_subjects, n_classes, subjects_per_batch)
        rng = np.random.default_rng(random_state)
        self._subjects = _Rounds(range(n_subjects), self.shape[0], rng)
        self._classes = _Rounds(range(n_classes), self.shape[1], rng)
        self._cells = {
            (m, c): _Rounds(np.flatnonzero((subjects == m) & (classes == c)), self.shape[2], rng)
            for m, c in sorted(set(zip(subjects.tolist(), classes.tolist())))
        }

    def __len__(self):
        return max(1, self.n_trials // int(np.prod(self.shape)))

    def __iter__(self):
        return (batch.tolist() for batch in self.arrays())

    def arrays(self):
        """Yield the batches of an epoch as arrays of indices."""
        for _ in range(len(self)):
            yield self._batch()

    def draw_probability(self):
        """Return the probability of every trial to be drawn as an item of a batch."""
        probability = np.zeros(self.n_trials)
        for cell in self._cells.values():
            probability[cell.items] = cell.size / len(cell.items)
        return probability / probability.sum()

    def _batch(self):
        # Sorted, so that batches of the same subjects have equal labels, and values that depend on them are cached.
        subjects, classes = sorted(self._subjects.draw().tolist()), sorted(self._classes.draw().tolist())
        cells = [self._cells[m, c].draw() for m in subjects for c in classes if (m, c) in self._cells]
        if not cells:  # Rarely, none of these subjects has any of these classes.
            return self._batch()
        return np.concatenate(cells)


class _Rounds:
    """Items drawn in random order, each once per round and never twice in a draw."""

    def __init__(self, items, size, rng):
        self.items = np.asarray(items)
        self.size, self.rng = min(size, len(self.items)), rng
        self.order, self.shuffled, self.n_shuffled, self.n_drawn = self.items[:0], self.items[:0], 0, 0

    def draw(self):  # This is called for every cell of every batch of every replica, so it is short.
        end = self.n_drawn + self.size
        if end > self.n_shuffled:
            self._shuffle()
            end = self.size
        self.n_drawn = end
        return self.shuffled[end - self.size : end]

    def _shuffle(self):
        remaining, order = self.order[self.n_drawn :], self.rng.permutation(len(self.items))
        if len(remaining):
            # The draw begins with the remaining items of the old round; the new round must not repeat them in it.
            is_later = np.ones(len(order), dtype=bool)
            is_later[remaining] = False
            new = order[is_later[order]][: self.size - len(remaining)]
            is_later[remaining], is_later[new] = True, False
            order = np.concatenate([remaining, new, order[is_later[order]]])
        self.order, self.shuffled, self.n_shuffled = order, self.items[order], len(order)
