"""Batch statistics of a temporal convolution, without the convolution.

A bank of filters ``w`` of ``K`` taps runs over every channel of every trial, zero-padded by ``p`` on either
side (``x̃``). Batch normalisation after it needs two numbers a filter:

    μ_f = w_fᵀ m / n,   var_f = w_fᵀ R w_f / n − μ_f²,   n = n_trials · n_chans · n_out,
    m[k] = Σ x̃[t + k],   R[k, l] = Σ x̃[t + k] x̃[t + l]      (sums over trials, channels and 0 ≤ t < n_out).

``R`` depends on the data alone. Were ``t`` to run over all integers it would be the Toeplitz matrix of the
autocorrelation ``ρ``; the positions left out touch only the first and the last ``q = K − 1 − p`` samples, so
two ``q × q`` Gram matrices ``L`` and ``E`` of these edges correct it:

    R[k, l] = ρ[|k − l|] − Σ_{i ≥ 1} L[k − i, l − i] − Σ_{i ≥ 0} E[k + i, l + i].
"""

import torch
from torch.nn import functional as F


def lag_moments(x, kernel_length, *, dtype=torch.float64, chunk=256):
    """Sum and autocorrelation of every trial, the costly part of the batch statistics.

    ``out[n, 0] = Σ_{c,t} x[n, c, t]`` and ``out[n, 1 + j] = Σ_{c,t} x[n, c, t] x[n, c, t + j]``.

    Parameters
    ----------
    x : Tensor of shape (n_trials, n_chans, n_times)
        Trials, not padded.
    kernel_length : int
        Number of taps ``K`` of the temporal filters; the lags are ``0 … K − 1``.
    dtype : torch.dtype
        Precision of the Fourier transform. Double by default, because this runs once per dataset.
    chunk : int
        Trials transformed at a time, which bounds the memory of a large dataset.

    Returns
    -------
    Tensor of shape (n_trials, 1 + kernel_length)
        Moments of each trial; those of a batch are the sum of its rows, so ``moments[idx]`` are the moments
        of the batch ``x[idx]``.

    Examples
    --------
    >>> x = torch.tensor([[[1.0, 2.0, 3.0]]])
    >>> lag_moments(x, 3).round(decimals=6)
    tensor([[ 6., 14.,  8.,  3.]], dtype=torch.float64)
    """
    return torch.cat([_lag_moments(part, kernel_length, dtype) for part in x.split(chunk)])


def batch_moments(x, kernel_length):
    """Moments of a whole batch, in its own precision: what :func:`lag_moments` spares a training step.

    Parameters
    ----------
    x : Tensor of shape (n_trials, n_chans, n_times)
        Batch. Gradients pass through.
    kernel_length : int
        Number of taps of the temporal filters.

    Returns
    -------
    Tensor of shape (1, 1 + kernel_length)
        Sum over trials of their lag moments.
    """
    return _lag_moments(x, kernel_length, x.dtype).sum(0, keepdim=True)


def _lag_moments(x, kernel_length, dtype):
    n_fft = fast_length(x.shape[-1] + kernel_length - 1)
    spectrum = torch.view_as_real(torch.fft.rfft(x.to(dtype), n_fft))
    power = spectrum.square().sum(-3).sum(-1, dtype=wide_dtype(x))
    lags = torch.fft.irfft(power, n_fft)[..., :kernel_length]
    total = x.sum((-2, -1), dtype=wide_dtype(x)).unsqueeze(-1)
    return torch.cat([total, lags], -1)


def fast_length(n):
    """Smallest even number from ``n`` on whose prime factors are 2, 3 and 5: a cheap Fourier length.

    Parameters
    ----------
    n : int
        Least length.

    Returns
    -------
    int
        Length of at least ``n``.

    Examples
    --------
    >>> fast_length(323)
    324
    """
    while True:
        rest = n
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1 and n % 2 == 0:
            return n
        n += 1


def wide_dtype(x):
    """Double precision, where the device has it.

    The variance is a small difference of large sums when a filter rejects most of the signal.

    Parameters
    ----------
    x : Tensor
        Any tensor on the device in question.

    Returns
    -------
    torch.dtype
        ``float64``, or ``float32`` on Apple's GPU.
    """
    return torch.float32 if x.device.type == "mps" else torch.float64


def convolution_statistics(x, weight, padding, moments):
    """Batch mean and biased variance of ``conv1d(x, w_f, padding=padding)`` for every filter.

    Parameters
    ----------
    x : Tensor of shape (n_trials, n_chans, n_times)
        Batch; here only its edges are read.
    weight : Tensor of shape (n_filters, kernel_length)
        Temporal filters, applied to each channel alone.
    padding : int
        Zeros on either side, at least ``(kernel_length − 1) / 2`` and less than ``kernel_length``.
    moments : Tensor of shape (n_trials, 1 + kernel_length)
        :func:`lag_moments` of the batch.

    Returns
    -------
    mean : Tensor of shape (n_filters,)
        Mean over trials, channels and output positions.
    var : Tensor of shape (n_filters,)
        Biased variance over the same.
    count : int
        Number of values the statistics are taken over.
    """
    taps = weight.shape[-1]
    count = x.shape[0] * x.shape[1] * (x.shape[2] + 2 * padding - taps + 1)
    first, second = window_moments(x, taps, padding, moments.sum(0, dtype=wide_dtype(x)))
    first = first / count
    covariance = second / count - first.unsqueeze(1) * first
    wide = weight.to(first.dtype)
    var = ((wide @ covariance) * wide).sum(-1)
    return (wide @ first).to(weight.dtype), var.to(weight.dtype), count


def window_moments(x, taps, padding, total):
    """First and second moments of all windows of ``taps`` samples of the padded signal.

    Parameters
    ----------
    x : Tensor of shape (n_trials, n_chans, n_times)
        Batch; only its edges are read.
    taps : int
        Window length ``K``.
    padding : int
        Zeros on either side.
    total : Tensor of shape (1 + taps,)
        :func:`lag_moments`, summed over the batch.

    Returns
    -------
    first : Tensor of shape (taps,)
        ``m`` of the module docstring.
    second : Tensor of shape (taps, taps)
        ``R`` of the module docstring.
    """
    edges = _edges(x, taps - 1 - padding)
    lost_first = _sum_down(edges.sum(1, dtype=total.dtype).unsqueeze(-1), taps)[..., 0]
    lost_second = _sum_down_diagonals((edges.mT @ edges).to(total.dtype), taps)
    lags = torch.cat([total[1:].flip(0), total[2:]])
    toeplitz = lags.unfold(0, taps, 1).flip(0)
    first = total[0] - lost_first[0] - lost_first[1].flip(0)
    return first, toeplitz - lost_second[0] - lost_second[1].flip(0, 1)


def _edges(x, width):
    """First samples, and last samples backwards, of every channel: (2, n_trials · n_chans, width).

    Reading the end backwards makes both edges lose their windows in the same way.
    """
    if x.shape[-1] < width:  # a trial shorter than its edge continues into the padding
        both = F.pad(torch.stack([x, x.flip(-1)]), (0, width - x.shape[-1]))
    else:
        both = torch.stack([x[..., :width], x[..., x.shape[-1] - width :].flip(-1)])
    return both.flatten(1, 2)


def _sum_down(edge, taps):
    """``out[k] = Σ_{i ≥ 1} e[k − i]`` for the ``e[p : K − 1]`` given: (2, width, …) to (2, taps, …)."""
    ones = torch.ones(taps, edge.shape[1], dtype=edge.dtype, device=edge.device)
    return ones.tril(edge.shape[1] - taps) @ edge


def _sum_down_diagonals(gram, taps):
    """``out[k, l] = Σ_{i ≥ 1} G[k − i, l − i]`` for the ``G[p : K − 1, p : K − 1]`` given."""
    # In rows of 2K a step down the diagonal is a stride of 2K + 1: with rows that long the diagonals are
    # columns. The K zeros to the right keep one diagonal from running into the next.
    start = taps - gram.shape[-1]
    square = F.pad(gram, (start, taps, start, 1))
    skewed = square.flatten(1)[:, : taps * (2 * taps + 1)].unflatten(1, (taps, 2 * taps + 1))
    ones = torch.ones(taps, taps, dtype=gram.dtype, device=gram.device)
    summed = (ones.tril() @ skewed).flatten(1)[:, : 2 * taps * taps]
    return summed.unflatten(1, (taps, 2 * taps))[..., :taps]
