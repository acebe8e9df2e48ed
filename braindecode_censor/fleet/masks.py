"""Dropout masks that belong to a member and not to the fleet: whoever else trains, they stay the same."""

from typing import NamedTuple

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from braindecode_censor.encoders.dropout import dropout_mask
from braindecode_censor.trials.random_numbers import mix, places

__all__ = ["GivenMasks", "Place", "decide_places", "drawn_masks", "find_places", "hashed_masks"]

# Functions that drop out, and from which axis on they drop all numbers or none.
_DROPOUTS = {F.dropout: None, F.dropout1d: 2, F.dropout2d: 2, F.dropout3d: 2}


class GivenMasks(TorchFunctionMode):
    """While it is active, dropout multiplies by masks that the caller gives, in the order in which it is called.

    It acts on functions and not on layers, because networks drop out in layers, in functions, and in attention.
    """

    def __init__(self, masks=None):
        super().__init__()
        self.masks, self.count = masks, 0
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Call a function of torch, unless it would drop out."""
        kwargs = kwargs or {}
        if func in _DROPOUTS:
            return self._drop(func, *args, **kwargs)
        if func is F.scaled_dot_product_attention:
            return self._attend(*args, **kwargs)
        return func(*args, **kwargs)

    def _drop(self, func, input, p=0.5, training=True, inplace=False):
        if not training or p in (0, 1):
            return func(input, p, training, inplace)
        return self._multiply(input, p, _DROPOUTS[func])

    def _attend(
        self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
    ):
        """Attention by its definition: torch's own draws its mask inside, and on a CPU cannot be batched."""
        if is_causal or enable_gqa:
            return F.scaled_dot_product_attention(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        if attn_mask is not None:
            masked = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, -torch.inf) if masked else scores + attn_mask
        weights = scores.softmax(-1)
        return (self._multiply(weights, dropout_p) if dropout_p else weights) @ value

    def _multiply(self, h, p, whole_from=None):
        if self.masks is None:
            self.calls.append((p, whole_from, h))
            return h
        self.count += 1
        return h * self.masks[self.count - 1]


class Place(NamedTuple):
    """One call of dropout in a forward pass."""

    p: float
    sizes: tuple
    order: tuple

    def shape(self, n):
        """Return the shape of a member's mask."""
        return tuple(each * n + beside for each, beside in self.sizes)


def find_places(module, batches):
    """Watch two batches go through a network and return where, and in which shapes, it drops out."""
    found = []
    for x in batches:
        with torch.no_grad(), GivenMasks() as given:
            module(x)
        found.append(given.calls)
    (small, large), places = map(len, batches), []
    for (p, whole_from, h), (_, _, longer) in zip(*found, strict=True):
        each = [(b - a) // (large - small) for a, b in zip(h.shape, longer.shape)]
        sizes = [(k, size - k * small) for k, size in zip(each, h.shape)]
        if whole_from is not None:
            sizes[whole_from:] = [(0, 1)] * len(sizes[whole_from:])
        places.append(
            Place(p, tuple(sizes), _memory_order(h) if whole_from is None else tuple(range(h.ndim)))
        )
    return places


def _memory_order(h):
    """Axes of a tensor as they lie in memory; the usual order for one that has gaps, of which torch makes a copy."""
    order = sorted(range(h.ndim), key=lambda axis: h.stride(axis), reverse=True)
    return tuple(order if h.permute(order).is_contiguous() and not h.is_contiguous() else range(h.ndim))


def drawn_masks(generators, shape, p, dtype, order=None):
    """Draw the masks that ``torch.nn.Dropout`` would draw on the CPU from each member's own generator."""
    order = tuple(range(len(shape))) if order is None else order
    lying = [shape[axis] for axis in order]
    back = [0, *(1 + order.index(axis) for axis in range(len(shape)))]
    return torch.stack([dropout_mask(lying, p, dtype, g) for g in generators]).permute(back)


def hashed_masks(seeds, counts, layer, shape, p, dtype, decide=None):
    """Compute masks from seed, step, layer and place alone, for all members at once and without a generator.

    Notes
    -----
    A generator that only counts (:mod:`braindecode_censor.trials.random_numbers`): no state to keep, save or
    advance, equal numbers on every device, and one fused kernel under ``torch.compile``.
    """
    stream = mix(seeds, counts, layer)
    return (decide or decide_places)(stream, places(shape, seeds.device), p, dtype).unflatten(1, shape)


def decide_places(stream, place, p, dtype):
    """Decide for every member and place whether it is dropped: the large part of :func:`hashed_masks`."""
    bits = mix(stream.unsqueeze(1) + place) & (2**32 - 1)
    kept = bits < round((1 - p) * 2**32)
    return kept.to(dtype) / (1 - p)
