"""The trials of all people with their pairs, and what a finished training leaves behind."""

from dataclasses import dataclass

import numpy as np

from braindecode_censor._check import check_choice
from braindecode_censor.search.folds import seed_of_pair

__all__ = ["TARGETS", "Outcome", "PairData"]

#: What may be known of a new person.
TARGETS = ("none", "unlabeled", "labeled")


@dataclass
class PairData:
    """The trials of all people, and how they are shared out."""

    X: np.ndarray
    y: np.ndarray
    people: np.ndarray
    pairs: list
    target: str = "unlabeled"
    sfreq: float | None = None
    device: str = "cpu"
    random_state: int = 0
    most: int | None = None

    def __post_init__(self):
        check_choice("target", self.target, TARGETS)
        self.n_people, self.n_classes = int(self.people.max()) + 1, int(self.y.max()) + 1

    def trials_of(self, person):
        """Return the positions of a person's trials."""
        return np.flatnonzero(self.people == person)

    def seen_without(self, position):
        """Return the positions of the trials that the training of a pair may see."""
        others = np.setdiff1d(np.arange(self.n_people), self.pairs[position])
        if self.most is not None:
            # people are shuffled once per pair and the first are kept, so that larger sets contain the smaller ones
            rng = np.random.default_rng(seed_of_pair(self.random_state, position))
            others = rng.permutation(others)[: self.most]
        return np.flatnonzero(np.isin(self.people, others))

    def make(self, candidate, position, steps=None):
        """Return the estimator of a candidate for the training of a pair."""
        seed = seed_of_pair(self.random_state, position)
        return candidate.make(self.X.shape[1:], self.sfreq, seed, self.device, steps)


@dataclass
class Outcome:
    """A finished training of a pair."""

    candidate: str
    position: int
    steps: int | None = None
    first: np.ndarray | None = None
    second: np.ndarray | None = None
    model: object = None
    seconds: float = 0.0
    error: str | None = None
