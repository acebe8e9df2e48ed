"""Distributions as rows of weights.

``q(z)`` is the batch with uniform weights; ``q(z | s = m)`` is the same batch with the weights of all other
subjects set to zero. No rows are removed by subject or class, so shapes do not depend on the data and every
function here works under ``torch.func.vmap`` and ``torch.compile``.
"""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Batch", "cell_rows", "one_hot_rows"]


class Batch(NamedTuple):
    """Labels of a batch, the second argument of a measure.

    Parameters
    ----------
    s : Tensor of shape (n,) or (n, p)
        Subject labels from 0, or the real values of a continuous nuisance.
    y : Tensor of shape (n,) or None
        Task labels when the mode conditions on them, else None, so that a measure does not depend on the mode.
    n_subjects : int or None
        Number of subjects.
    n_classes : int or None
        Number of classes.
    continuous : bool
        True for real-valued `s`.
    noise : Tensor or None
        Uniform random numbers to select pairs, or to order subjects.
    """

    s: Tensor
    y: Tensor | None = None
    n_subjects: int | None = None
    n_classes: int | None = None
    continuous: bool = False
    noise: Tensor | None = None


def one_hot_rows(labels, n_labels, dtype):
    """Return the indicator row of every label, shape (n_labels, n)."""
    return (torch.arange(n_labels, device=labels.device)[:, None] == labels[None, :]).to(dtype)


def cell_rows(batch, dtype):
    """Return the indicator rows of every stratum (class) and of every subject in it.

    Parameters
    ----------
    batch : Batch
        Labels.
    dtype : torch.dtype
        Type of the result.

    Returns
    -------
    strata : Tensor of shape (n_strata, n)
        One row of ones without y, else one row per class.
    cells : Tensor of shape (n_strata, n_subjects, n)
        The rows of each subject within each stratum.
    """
    subjects = one_hot_rows(batch.s, batch.n_subjects, dtype)
    if batch.y is None:
        return torch.ones_like(subjects[:1]), subjects[None]
    classes = one_hot_rows(batch.y, batch.n_classes, dtype)
    return classes, classes[:, None] * subjects
