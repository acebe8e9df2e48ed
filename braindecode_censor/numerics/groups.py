"""Groups of samples as a matrix that tells for every pair whether it belongs together.

Shapes do not depend on the data, so every function works under ``torch.func.vmap`` and ``torch.compile``.
:func:`equal_groups` alone looks at values, where that is allowed, and saves time.
"""

import torch

from braindecode_censor._check import is_traced

__all__ = ["equal_groups", "group_heads", "group_ranks", "group_sizes", "same_group"]


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
