"""Groups of samples as a boolean matrix of the pairs that belong together.

Shapes do not depend on the data, so every function works under ``torch.func.vmap`` and ``torch.compile``.
Only :func:`equal_groups` reads values, where that is allowed, to save time.
"""

import torch

from braindecode_censor._check import is_traced

__all__ = ["equal_groups", "group_heads", "group_ranks", "group_sizes", "mix_groups", "same_group"]


def same_group(*labels):
    """Return a matrix (n, n), True for the pairs of samples whose labels all agree; None without labels."""
    same = None
    for label in labels:
        if label is not None:
            agree = label[:, None] == label[None, :]
            same = agree if same is None else same & agree
    return same


def group_sizes(same):
    """Return the size of the group of every sample."""
    return same.sum(-1)


def equal_groups(same):
    """Return the samples of every group (n_groups, size), or None if sizes differ, are one or cannot be read."""
    if is_traced(same) or same.is_cuda:
        return None
    size, largest = (int(number) for number in group_sizes(same).aminmax())
    if size != largest or size < 2:
        return None
    return group_heads(same).argsort(stable=True).view(-1, size)


def mix_groups(labels, order, stratum=None):
    """Return new labels (n,): groups of the same sizes, each with samples of all old groups, within each stratum."""
    same = same_group(stratum, labels)
    rank = (same.tril(-1).sum(-1) + 0.5) / group_sizes(same)
    by_label, by_rank = _sort(stratum, order), _sort(stratum, rank, order)
    return labels[by_label][by_rank.argsort()]


def _sort(*keys):
    """Return the indices that sort by the first key, then by the next; None is ignored."""
    index = None
    for key in reversed(keys):
        if key is not None:
            index = key.argsort(stable=True) if index is None else index[key[index].argsort(stable=True)]
    return index


def group_heads(same):
    """Return the index of the first sample of every sample's group."""
    return same.to(torch.int8).argmax(-1)


def group_ranks(same):
    """Number the groups in order of first appearance (-1: in no group); return also which samples come first."""
    index = torch.arange(same.shape[-1], device=same.device)
    representative = group_heads(same)
    inside = same.any(-1)
    first = inside & (representative == index)
    numbers = first.long().cumsum(-1) - 1
    ranks = numbers[representative]
    return torch.where(inside, ranks, torch.full_like(ranks, -1)), first
