"""Weights of trials that balance subjects, and the classes of each subject."""

import numpy as np

__all__ = ["balanced_weights"]


def balanced_weights(y, subjects):
    """Return one weight per trial: equal sums for all subjects and for the classes of a subject; the total is 1."""
    y, subjects = np.unique(y, return_inverse=True)[1], np.unique(subjects, return_inverse=True)[1]
    counts = np.zeros((subjects.max() + 1, y.max() + 1))
    np.add.at(counts, (subjects, y), 1)
    n_classes = (counts > 0).sum(axis=1)
    return 1 / (counts[subjects, y] * n_classes[subjects] * len(counts))
