"""Groups of samples as a matrix that tells for every pair whether it belongs together.

Shapes do not depend on the data, so every function works under ``torch.func.vmap`` and ``torch.compile``.
:func:`equal_groups` alone looks at values, where that is allowed, and saves time.
"""

import torch

from braindecode_censor._check import is_traced

__all__ = ["deal", "equal_groups", "group_heads", "group_ranks", "group_sizes", "same_group"]


def same_group(*labels):
    """Tell for every pair of samples whether all their labels agree."""
    same = None
    for label in labels:
        if label is not None:
            agree = label[:, None] == label[None, :]
            same = agree if same is None else same & agree
    return same


def group_sizes(same):
    """Size of the group of every sample."""
    return same.sum(-1)


def equal_groups(same):
    """Find the members of every group, where all groups are equally large and values may be looked at."""
    if is_traced(same) or same.is_cuda:
        return None
    size, largest = (int(number) for number in group_sizes(same).aminmax())
    if size != largest or size < 2:
        return None
    return group_heads(same).argsort(stable=True).view(-1, size)


def deal(labels, order, stratum=None):
    """Deal the samples out to groups as theirs, like cards, so that groups no longer tell where one is from."""
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
    """Find the first sample of every sample's group."""
    return same.to(torch.int8).argmax(-1)


def group_ranks(same):
    """Number the groups 0, 1, ... in order of first appearance."""
    index = torch.arange(same.shape[-1], device=same.device)
    representative = group_heads(same)
    inside = same.any(-1)
    first = inside & (representative == index)
    numbers = first.long().cumsum(-1) - 1
    ranks = numbers[representative]
    return torch.where(inside, ranks, torch.full_like(ranks, -1)), first
