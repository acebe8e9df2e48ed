"""Mixing of channels followed by a bank of temporal filters."""

import torch
from torch.nn import functional as F


def mix_and_filter(x, mixing, weight, padding):
    """Mix channels, then filter each mixture in time.

    ``y[n, fd, t] = Σ_k w[f, k] Σ_c u[fd, c] x̃[n, c, t + k]`` with ``x̃`` zero-padded on either side.

    Parameters
    ----------
    x : Tensor of shape (n_trials, n_chans, n_times)
        Batch.
    mixing : Tensor of shape (n_filters · depth, n_chans)
        Spatial filters ``u``; those of one temporal filter stand together.
    weight : Tensor of shape (n_filters, kernel_length)
        Temporal filters ``w``.
    padding : int
        Zeros on either side.

    Returns
    -------
    Tensor of shape (n_trials, n_filters · depth, n_times + 2 · padding − kernel_length + 1)
        Filtered mixtures.
    """
    n_trials, _, n_times = x.shape
    n_filters = weight.shape[0]
    mixed = (mixing @ x).view(n_trials, n_filters, -1, n_times).transpose(0, 1)
    y = toeplitz_filter(mixed.reshape(n_filters, -1, n_times), weight, padding)
    return y.view(n_filters, n_trials, -1, y.shape[-1]).transpose(0, 1).flatten(1, 2)


def toeplitz_filter(s, weight, padding, block=48):
    """Correlate each row with its filter, as matrix products with a banded Toeplitz matrix.

    The output is cut into blocks of ``block`` samples, so that the matrix has ``block + K − 1`` rows
    whatever the length of the signal.

    Parameters
    ----------
    s : Tensor of shape (n_filters, n_rows, n_times)
        Signals of each filter.
    weight : Tensor of shape (n_filters, kernel_length)
        One filter each.
    padding : int
        Zeros on either side.
    block : int
        Output samples of one product.

    Returns
    -------
    Tensor of shape (n_filters, n_rows, n_times + 2 · padding − kernel_length + 1)
        Filtered signals.
    """
    n_filters, n_rows, n_times = s.shape
    taps = weight.shape[1]
    n_out = n_times + 2 * padding - taps + 1
    n_blocks = -(-n_out // block)
    span = block + taps - 1
    padded = F.pad(s, (padding, n_blocks * block + taps - 1 - n_times - padding))
    pieces = padded.unfold(-1, span, block).reshape(n_filters, -1, span)
    # One row of the band, repeated with a row length one short of its period, shifts by one each row.
    rows = F.pad(weight, (0, block)).unsqueeze(1).expand(-1, block, -1).reshape(n_filters, -1)
    band = rows[:, : block * span].view(n_filters, block, span)
    return torch.bmm(pieces, band.mT).view(n_filters, n_rows, -1)[..., :n_out]
