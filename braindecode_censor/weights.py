"""Distributions as rows of weights.

``q(z)`` is the batch with uniform weights; ``q(z | s = m)`` is the same batch with the weights of everybody
else set to zero. Nothing has to be cut out by subject or class, so shapes do not depend on the data and every
function here works under ``torch.func.vmap`` and ``torch.compile``. :func:`equal_groups` alone looks at values, where
that is allowed, and saves time.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from braindecode_censor._check import is_traced

__all__ = [
    "Batch",
    "cell_counts",
    "cell_rows",
    "equal_groups",
    "group_heads",
    "group_ranks",
    "group_sizes",
    "label_rows",
    "one_hot_rows",
    "same_group",
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


def same_group(*labels):
    """Tell for every pair of samples whether all their labels agree.

    Parameters
    ----------
    *labels : Tensor of shape (n,) or None
        Labels; None is ignored.

    Returns
    -------
    same : Tensor of shape (n, n), bool
        True where a pair agrees.
    """
    same = None
    for label in labels:
        if label is not None:
            agree = label[:, None] == label[None, :]
            same = agree if same is None else same & agree
    return same


def group_sizes(same):
    """Size of the group of every sample.

    Parameters
    ----------
    same : Tensor of shape (n, n), bool
        Pairs of one group; a sample outside every group has an empty row.

    Returns
    -------
    sizes : Tensor of shape (n,), int64
        Number of samples in the sample's group.
    """
    return same.sum(-1)


def equal_groups(same):
    """Find the members of every group, where all groups are equally large and values may be looked at.

    Parameters
    ----------
    same : Tensor of shape (n, n), bool
        Pairs of one group.

    Returns
    -------
    members : Tensor of shape (n_groups, size), int64, or None
        Positions of the samples of each group. None on a GPU and in a traced graph, where nobody looks at values, and
        where groups are not alike or have a single member.
    """
    if is_traced(same) or same.is_cuda:
        return None
    size, largest = (int(number) for number in group_sizes(same).aminmax())
    if size != largest or size < 2:
        return None
    return group_heads(same).argsort(stable=True).view(-1, size)


def group_heads(same):
    """Find the first sample of every sample's group.

    Parameters
    ----------
    same : Tensor of shape (n, n), bool
        Pairs of one group.

    Returns
    -------
    heads : Tensor of shape (n,), int64
        Position of the first sample of the group; 0 outside every group.
    """
    return same.to(torch.int8).argmax(-1)


def group_ranks(same):
    """Number the groups 0, 1, ... in order of first appearance.

    Parameters
    ----------
    same : Tensor of shape (n, n), bool
        Pairs of one group.

    Returns
    -------
    ranks : Tensor of shape (n,), int64
        Number of the sample's group; -1 outside every group.
    first : Tensor of shape (n,), bool
        True for the first sample of each group.
    """
    index = torch.arange(same.shape[-1], device=same.device)
    representative = group_heads(same)
    inside = same.any(-1)
    first = inside & (representative == index)
    numbers = first.long().cumsum(-1) - 1
    ranks = numbers[representative]
    return torch.where(inside, ranks, torch.full_like(ranks, -1)), first
