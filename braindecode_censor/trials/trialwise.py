"""Normalisations that need nothing but the trial itself."""

import numpy as np

from braindecode_censor.trials.affine import CHUNK, is_constant

__all__ = ["scale_trials", "zscore"]


def zscore(x):
    """Standardise each channel of each trial over time."""
    return _by_chunks(x, (-1,))


def scale_trials(x):
    """Centre each channel of each trial over time and divide the whole trial by one number."""
    return _by_chunks(x, (-2, -1))


def _by_chunks(x, common):
    out = np.empty_like(x)
    for start in range(0, len(x), CHUNK):
        out[start : start + CHUNK] = _standardize(x[start : start + CHUNK], common)
    return out


def _standardize(x, common):
    # The signals are divided by their own size first, so that neither volts nor a huge unit leave the range of
    # squares. What is divided by must be common to the samples that share one standard deviation.
    largest = np.abs(x).max(axis=common, keepdims=True)
    x = x / np.where(largest > 0, largest, 1)
    mean = x.mean(axis=-1, keepdims=True)
    x = x - mean
    constant = is_constant(mean, x.std(axis=-1, keepdims=True))
    x = np.where(constant, 0, x)
    scale = np.sqrt(np.square(x).mean(axis=common, keepdims=True))
    return x / np.where(scale > 0, scale, 1)
