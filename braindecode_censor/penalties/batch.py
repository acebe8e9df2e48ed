"""Distributions as rows of weights.

``q(z)`` is the batch with uniform weights; ``q(z | s = m)`` is the same batch with the weights of everybody
else set to zero. Nothing has to be cut out by subject or class, so shapes do not depend on the data and every
function here works under ``torch.func.vmap`` and ``torch.compile``. :func:`equal_groups` alone looks at values, where
that is allowed, and saves time.
"""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "Batch",
    "cell_counts",
    "cell_rows",
    "label_rows",
    "one_hot_rows",
]


class Batch(NamedTuple):
    """What a measure is told about a batch besides z.

    Parameters
    ----------
    s : Tensor of shape (n,) or (n, p)
        Subject labels from 0, or the real values of a continuous nuisance.
    y : Tensor of shape (n,) or None
        Task labels when the mode conditions on them, else None: a measure never has to know the mode.
    n_subjects : int or None
        Number of subjects.
    n_classes : int or None
        Number of classes.
    continuous : bool
        Whether `s` is real-valued.
    noise : Tensor or None
        Uniform random numbers for the random choice of pairs.
    facts : dict or None
        What :meth:`once` has found out about the labels; None remembers nothing.
    """

    s: Tensor
    y: Tensor | None = None
    n_subjects: int | None = None
    n_classes: int | None = None
    continuous: bool = False
    noise: Tensor | None = None
    facts: dict | None = None

    def once(self, key, compute, version=None):
        """Return what depends on the labels alone, computed the first time it is asked for.

        A critic, the penalty and both halves of z ask for the same weights of the same trials.

        Parameters
        ----------
        key : hashable
            Names the result: everything it depends on besides the labels.
        compute : callable
            Makes the result, from no argument.
        version : hashable, optional
            A number that may change from step to step; only the latest result is kept.

        Returns
        -------
        fact : object
            What `compute` returned.
        """
        if self.facts is None:
            return compute()
        known = self.facts.get(key)
        if known is None or known[0] != version:
            if torch.is_inference_mode_enabled():  # who asks next may need autograd
                compute = torch.inference_mode(False)(torch.no_grad()(compute))
            known = self.facts[key] = version, compute()
        return known[1]


def one_hot_rows(labels, n_labels, dtype):
    """Indicator row of every label.

    Parameters
    ----------
    labels : Tensor of shape (n,)
        Integer labels.
    n_labels : int
        Number of rows.
    dtype : torch.dtype
        Type of the result.

    Returns
    -------
    rows : Tensor of shape (n_labels, n)
        1 where the sample has the row's label.
    """
    return (torch.arange(n_labels, device=labels.device)[:, None] == labels[None, :]).to(dtype)


def label_rows(batch, dtype):
    """Indicator rows of all classes and of all subjects.

    Parameters
    ----------
    batch : Batch
        Labels.
    dtype : torch.dtype
        Type of the result.

    Returns
    -------
    classes : Tensor of shape (n_classes, n) or None
        None without y.
    subjects : Tensor of shape (n_subjects, n)
        1 where the sample is the subject's.
    """

    def compute():
        subjects = one_hot_rows(batch.s, batch.n_subjects, dtype)
        return None if batch.y is None else one_hot_rows(batch.y, batch.n_classes, dtype), subjects

    return batch.once(("rows", dtype), compute)


def cell_rows(batch, dtype):
    """Indicator rows of every stratum (class) and of every subject in it.

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

    def compute():
        classes, subjects = label_rows(batch, dtype)
        if classes is None:
            return torch.ones_like(subjects[:1]), subjects[None]
        return classes, classes[:, None] * subjects

    return batch.once(("cells", dtype), compute)


def cell_counts(batch, dtype):
    """Count the trials of every stratum and of every subject in it.

    Parameters
    ----------
    batch : Batch
        Labels.
    dtype : torch.dtype
        Type of the result.

    Returns
    -------
    strata : Tensor of shape (n_strata,)
        Trials of each stratum.
    cells : Tensor of shape (n_strata, n_subjects)
        Trials of each subject within each stratum.
    """

    def compute():
        classes, subjects = label_rows(batch, dtype)
        if classes is None:
            return torch.full_like(subjects[0, :1], len(batch.s)), subjects.sum(-1)[None]
        counts = classes @ subjects.T
        return counts.sum(-1), counts

    return batch.once(("counts", dtype), compute)
