"""Dropout masks that belong to a member and not to the fleet: whoever else trains, they stay the same."""

import torch
from torch import nn

from braindecode_censor.encoders.dropout import dropout_mask
from braindecode_censor.trials.random_numbers import mix, places

__all__ = ["GivenMask", "decide_places", "drawn_masks", "hashed_masks"]


class GivenMask(nn.Module):
    """In the place of a dropout layer: multiplies by a mask that the caller puts into the buffer ``mask``.

    Parameters
    ----------
    p : float
        Probability of dropping a number.
    """

    def __init__(self, p):
        super().__init__()
        self.p = p
        self.register_buffer("mask", torch.ones(()), persistent=False)

    def forward(self, h):
        """Drop.

        Parameters
        ----------
        h : Tensor
            Input.

        Returns
        -------
        h : Tensor
            Product with the mask; the input itself outside training.
        """
        return h * self.mask if self.training and self.p else h


def drawn_masks(generators, shape, p, dtype):
    """Draw the masks that ``torch.nn.Dropout`` would draw on the CPU from each member's own generator.

    Parameters
    ----------
    generators : sequence of torch.Generator
        One per member, on the CPU.
    shape : tuple of int
        Shape of a member's mask.
    p : float
        Probability of dropping a number.
    dtype : torch.dtype
        Type of the network.

    Returns
    -------
    masks : Tensor of shape (n_members, ...)
        0, or 1 / (1 - p).
    """
    return torch.stack([dropout_mask(shape, p, dtype, generator) for generator in generators])


def hashed_masks(seeds, counts, layer, shape, p, dtype, decide=None):
    """Compute masks from seed, step, layer and place alone, for all members at once and without a generator.

    Parameters
    ----------
    seeds, counts : Tensor of shape (n_members,), int64
        Each member's seed, and the number of its step.
    layer : int
        Number of the dropout layer.
    shape : tuple of int
        Shape of a member's mask.
    p : float
        Probability of dropping a number.
    dtype : torch.dtype
        Type of the network.
    decide : callable or None
        A compiled :func:`decide_places`.

    Returns
    -------
    masks : Tensor of shape (n_members, ...)
        0, or 1 / (1 - p), on the device of the seeds.

    Notes
    -----
    A generator that only counts (:mod:`braindecode_censor.trials.random_numbers`): no state to keep, save or
    advance, equal numbers on every device, and one fused kernel under ``torch.compile``.
    """
    stream = mix(seeds, counts, layer)
    return (decide or decide_places)(stream, places(shape, seeds.device), p, dtype).unflatten(1, shape)


def decide_places(stream, place, p, dtype):
    """Decide for every member and place whether it is dropped: the large part of :func:`hashed_masks`.

    Parameters
    ----------
    stream : Tensor of shape (n_members,), int64
        Number of each member's stream.
    place : Tensor of shape (n_places,), int64
        Numbers of the places. An argument, because compilers count places in 32 bits when left alone.
    p : float
        Probability of dropping a number.
    dtype : torch.dtype
        Type of the network.

    Returns
    -------
    mask : Tensor of shape (n_members, n_places)
        0, or 1 / (1 - p).
    """
    bits = mix(stream.unsqueeze(1) + place) & (2**32 - 1)
    kept = bits < round((1 - p) * 2**32)
    return kept.to(dtype) / (1 - p)
