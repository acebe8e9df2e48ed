"""Dropout masks that belong to a replica: they do not depend on the rest of the fleet."""

from typing import NamedTuple

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from braindecode_censor.trials.random_numbers import counters, mix

__all__ = ["DropoutSite", "ExternalMasks", "find_dropout_sites", "hash_masks", "mask_elements"]

# Dropout functions, and the axis from which on they drop all numbers or none.
_DROPOUTS = {F.dropout: None, F.dropout1d: 2, F.dropout2d: 2, F.dropout3d: 2}


class ExternalMasks(TorchFunctionMode):
    """Replacement of dropout by multiplication with masks from outside, in the order of the calls.

    It acts on functions, not on layers, because networks drop out in layers, in functions and in attention. Without
    masks nothing is dropped and the calls are listed.
    """

    def __init__(self, masks=None):
        super().__init__()
        self.masks, self.count = masks, 0
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Call a function of torch, or replace dropout."""
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
        """Compute attention by its definition: torch's draws its mask inside, and cannot be batched on a CPU."""
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


class DropoutSite(NamedTuple):
    """One call of dropout in a forward pass."""

    p: float
    sizes: tuple  # per axis (a, b): its length is a * n_trials + b

    def shape(self, n):
        """Return the shape of a replica's mask."""
        return tuple(per_trial * n + constant for per_trial, constant in self.sizes)


def find_dropout_sites(module, batches):
    """Return the dropout calls of a network, from the forward passes of two batches of unequal size."""
    calls = []
    for x in batches:
        with torch.no_grad(), ExternalMasks() as masks:
            module(x)
        calls.append(masks.calls)
    (n_small, n_large), sites = map(len, batches), []
    for (p, whole_from, h), (_, _, larger) in zip(*calls, strict=True):
        slopes = [(b - a) // (n_large - n_small) for a, b in zip(h.shape, larger.shape)]
        sizes = [(slope, size - slope * n_small) for slope, size in zip(slopes, h.shape)]
        if whole_from is not None:
            sizes[whole_from:] = [(0, 1)] * len(sizes[whole_from:])
        sites.append(DropoutSite(p, tuple(sizes)))
    return sites


def hash_masks(seeds, counts, layer, shape, p, dtype, function=None):
    """Compute the masks of all replicas from seed, step, layer and position, without a generator.

    So there is no state to save, the numbers are equal on every device, and ``torch.compile`` makes one kernel of it.
    """
    stream = mix(seeds, counts, layer)
    return (function or mask_elements)(stream, counters(shape, seeds.device), p, dtype).unflatten(1, shape)


def mask_elements(stream, positions, p, dtype):
    """Compute flat masks, shape (n_replicas, n): the large part of :func:`hash_masks`."""
    bits = mix(stream.unsqueeze(1) + positions) & (2**32 - 1)
    return (bits < round((1 - p) * 2**32)).to(dtype) / (1 - p)
