"""Weights of trials that make subjects count alike, and the classes of each subject."""

import numpy as np

__all__ = ["balanced_weights"]


def balanced_weights(y, subjects):
    """Return one weight per trial: subjects count alike and so do the classes of each subject; the sum is 1."""
    y, subjects = np.unique(y, return_inverse=True)[1], np.unique(subjects, return_inverse=True)[1]
    counts = np.zeros((subjects.max() + 1, y.max() + 1))
    np.add.at(counts, (subjects, y), 1)
    n_classes = (counts > 0).sum(axis=1)
    return 1 / (counts[subjects, y] * n_classes[subjects] * len(counts))
