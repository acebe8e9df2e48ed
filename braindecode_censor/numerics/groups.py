"""Groups of samples as a matrix that tells for every pair whether it belongs together.

Shapes do not depend on the data, so every function works under ``torch.func.vmap`` and ``torch.compile``.
:func:`equal_groups` alone looks at values, where that is allowed, and saves time.
"""

import torch

from braindecode_censor._check import is_traced

__all__ = ["deal", "equal_groups", "group_heads", "group_ranks", "group_sizes", "same_group"]


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


def deal(labels, order, stratum=None):
    """Deal the samples out to groups as large as theirs, like cards, so that groups no longer tell where one is from.

    Parameters
    ----------
    labels : Tensor of shape (n,), int64
        Group of every sample.
    order : Tensor of shape (n,)
        Who is dealt first: one number for all samples of a group.
    stratum : Tensor of shape (n,), int64, or None
        Samples stay in their stratum.

    Returns
    -------
    dealt : Tensor of shape (n,), int64
        New groups; within each stratum there are as many samples of a label as before. Those of an old group are spread
        evenly through the deck, so that a new one has few of it.
    """
    same = same_group(stratum, labels)
    depth = (same.tril(-1).sum(-1) + 0.5) / group_sizes(same)
    places, cards = _sort(stratum, order), _sort(stratum, depth, order)
    return labels[places][cards.argsort()]


def _sort(*keys):
    """Positions in the order of the first key, then of the next; None is ignored."""
    index = None
    for key in reversed(keys):
        if key is not None:
            index = key.argsort(stable=True) if index is None else index[key[index].argsort(stable=True)]
    return index


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
