"""Random numbers that are a function of (seed, step, counter): without a state, and equal on every device.

So a training draws the same numbers alone and as a replica of a fleet.
"""

from functools import lru_cache

import torch

__all__ = ["counters", "mix", "noise", "normal", "uniform"]

# Constants of SplitMix64, as torch's signed integers wrap around.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64
# Length of the table of normal numbers that noise is read from; about 1 MB.
_TABLE = 2**18


def mix(*numbers):
    """Hash integers into one by the finaliser of SplitMix64, once per integer.

    References
    ----------
    Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators.
    """
    mixed = 0
    for number in numbers:
        mixed = _finalize(mixed + number)
    return mixed


def _finalize(x):
    x = x + _GOLDEN
    x = (x ^ _shift(x, 30)) * _FIRST
    x = (x ^ _shift(x, 27)) * _SECOND
    return x ^ _shift(x, 31)


def _shift(x, n):
    """Shift to the right and fill with zeros; torch's operator repeats the sign."""
    return (x >> n) & (2 ** (64 - n) - 1)


def counters(shape, device):
    """Return one integer per element of an array, whose differences are large enough for independent numbers."""
    return torch.arange(torch.Size(shape).numel(), device=device) * _GOLDEN


def uniform(stream, shape):
    """Return uniform numbers in [0, 1) for each stream, (n_streams, *shape)."""
    bits = _finalize(stream.unsqueeze(1) + counters(shape, stream.device))
    return (_shift(bits, 40).float() * 2.0**-24).unflatten(1, shape)


def normal(stream, shape):
    """Return standard normal numbers for each stream, (n_streams, *shape)."""
    return _quantile(uniform(stream, shape))


def _quantile(u):
    """Return normal quantiles of the middles of the steps of :func:`uniform`, of which none is 0 or 1."""
    # In single precision the middle of the last step would be 1, whose quantile is infinite.
    return torch.special.ndtri(u.double() + 2.0**-25).float()


def noise(stream, shape, n_times):
    """Return white noise, (n_streams, *shape, n_times), from random rows of a table, which is fast."""
    table = _table(n_times, stream.device)
    start = (uniform(stream, shape) * _TABLE).long()
    return table.unfold(0, n_times, 1).index_select(0, start.flatten()).view(*start.shape, n_times)


@lru_cache(maxsize=8)
def _table(n_times, device):
    generator = torch.Generator().manual_seed(20240229)
    return torch.randn(_TABLE + n_times, generator=generator).to(device)
