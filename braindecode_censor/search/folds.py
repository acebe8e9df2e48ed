"""Leave-two-subjects-out folds: a model trained without two subjects tests the one and validates the other.

Subjects are the corners of a graph, and every edge is a fold: one training without the two subjects at its ends. In
a graph in which every subject has k partners, S subjects need S·k/2 trainings of each candidate, and every subject
is tested by k models that have not seen it.
"""

from dataclasses import dataclass

import numpy as np

from braindecode_censor._check import check_choice, check_size
from braindecode_censor.run.training import TARGETS, Training, TrialData

__all__ = ["FoldedTrials", "check_enough_subjects", "fold_seed", "make_folds", "partners_of"]

_ALL_PAIRS = 5  # with so few subjects every pair is a fold


def make_folds(n_subjects, partners=4, random_state=0):
    """Return the pairs of subjects that are held out together; the first ones test every subject once."""
    check_enough_subjects(n_subjects)
    check_size("partners", partners, 2)
    degree = n_subjects - 1 if n_subjects <= _ALL_PAIRS else min(partners, n_subjects - 1)
    order = np.random.default_rng(random_state).permutation(n_subjects).tolist()
    return list(dict.fromkeys(tuple(sorted((order[a], order[b]))) for a, b in _ring(n_subjects, degree)))


def check_enough_subjects(n_subjects):
    """Raise unless there is a subject to train on when two are held out."""
    if n_subjects < 3:
        raise ValueError(
            f"subjects: {n_subjects} subjects, but at least 3 are needed: a model is trained without two of them, one "
            "to test and one to choose by. Record more subjects, or train CensoredEEGClassifier without a choice."
        )


def _ring(n_subjects, degree):
    """Yield neighbours on a ring, those after next and so on; an odd degree also needs those across.

    Every distance is gone through in two halves, in each of which hardly any subject occurs twice.
    """
    for distance in range(1, degree // 2 + 1):
        for half in (0, 1):
            starts = (a for a in range(n_subjects) if a // distance % 2 == half)
            yield from ((a, (a + distance) % n_subjects) for a in starts)
    if degree % 2:
        across = n_subjects // 2
        yield from ((a, (a + across) % n_subjects) for a in range((n_subjects + 1) // 2))


def partners_of(subject, folds):
    """Return the subjects that are held out together with one, as partner -> number of the fold."""
    return {b if subject == a else a: k for k, (a, b) in enumerate(folds) if subject in (a, b)}


def fold_seed(random_state, fold):
    """Return the seed of the training of a fold; averaging over folds then averages over seeds too."""
    return int(np.random.SeedSequence([random_state, fold]).generate_state(1)[0] % 2**31)


@dataclass
class FoldedTrials:
    """The trials of subjects 0 .. n_subjects - 1 with their folds: makes the training of a candidate on a fold."""

    data: TrialData
    folds: list  # of (int, int): the subjects that are held out together
    target: str = "unlabeled"
    sfreq: float | None = None
    device: str = "cpu"
    random_state: int = 0
    max_subjects: int | None = None  # of training subjects, sampled per fold; None uses all

    def __post_init__(self):
        check_choice("target", self.target, TARGETS)
        self.n_subjects = int(self.data.subjects.max()) + 1
        self.labels = [self.data.y[self.data.rows([subject])] for subject in range(self.n_subjects)]

    @property
    def n_first_folds(self):
        """The number of folds, from the first, that test every subject once."""
        subjects = set()
        for k, fold in enumerate(self.folds):
            subjects |= set(fold)
            if len(subjects) == self.n_subjects:
                return k + 1
        return len(self.folds)

    def training(self, candidate, fold, steps=None):
        """Return the training of a candidate without the subjects of a fold."""
        seed = fold_seed(self.random_state, fold)
        estimator = candidate.make(self.data.X.shape[1:], self.sfreq, seed, self.device, steps)
        train = np.setdiff1d(np.arange(self.n_subjects), self.folds[fold])
        if self.max_subjects is not None:
            # Subjects are shuffled once per fold and the first are used, so that larger sets contain smaller ones.
            train = np.random.default_rng(seed).permutation(train)[: self.max_subjects]
        return Training(candidate.name, estimator, tuple(train.tolist()), self.folds[fold], self.target)
