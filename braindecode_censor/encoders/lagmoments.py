"""Batch statistics of a temporal convolution, without the convolution.

A bank of filters ``w`` of ``K`` taps runs over every channel of every trial, zero-padded by ``p`` on either
side (``x̃``). Batch normalisation after it needs two numbers a filter:

    μ_f = w_fᵀ m / n,   var_f = w_fᵀ R w_f / n − μ_f²,   n = n_trials · n_chans · n_out,
    m[k] = Σ x̃[t + k],   R[k, l] = Σ x̃[t + k] x̃[t + l]      (sums over trials, channels and 0 ≤ t < n_out).

``R`` depends on the data alone. Were ``t`` to run over all integers it would be the Toeplitz matrix of the
autocorrelation ``ρ``; the positions left out touch only the first and the last ``q = K − 1 − p`` samples, so
two ``q × q`` Gram matrices ``L`` and ``E`` of these edges correct it::

    R[k, l] = ρ[|k − l|] − Σ_{i ≥ 1} L[k − i, l − i] − Σ_{i ≥ 0} E[k + i, l + i].
"""

import torch
from torch.nn import functional as F


def lag_moments(x, kernel_length, padding=None, *, chunk=64):
    """Moments ``m`` and ``R`` of every trial, once per dataset."""
    padding = kernel_length // 2 if padding is None else padding
    parts = [_moments(part, kernel_length, padding, wide_dtype(x)).to(x.dtype) for part in x.split(chunk)]
    return torch.cat(parts)


def batch_moments(x, kernel_length, padding):
    """Moments of a whole batch in one go: what a training step without :func:`lag_moments` computes."""
    return _moments(x.flatten(0, 1).unsqueeze(0), kernel_length, padding, x.dtype)


def batch_covariance(moments, count):
    """Mean and covariance of all windows of a batch."""
    total = moments.sum(0).to(wide_dtype(moments)) / count
    mean = total[:, 0]
    return mean, total[:, 1:] - mean.unsqueeze(1) * mean


def _moments(x, taps, padding, dtype):
    """Moments of each trial, with the Fourier transform in ``dtype``; see :func:`lag_moments`."""
    wide = wide_dtype(x)
    n_fft = fast_length(x.shape[-1] + taps - 1)
    spectrum = torch.view_as_real(torch.fft.rfft(x.to(dtype), n_fft))
    power = spectrum.square().sum(-3).sum(-1, dtype=wide)
    lags = torch.fft.irfft(power, n_fft)[..., :taps]
    toeplitz = torch.cat([lags.flip(-1), lags[..., 1:]], -1).unfold(-1, taps, 1).flip(-2)
    edges = _edges(x, taps - 1 - padding).to(dtype)
    lost = _sum_down_diagonals((edges.mT @ edges).to(wide), taps)
    second = toeplitz - lost[0] - lost[1].flip(-2, -1)
    lost = _sum_down(edges.sum(-2, dtype=wide), taps)
    first = x.sum((-2, -1), dtype=wide).unsqueeze(-1) - lost[0] - lost[1].flip(-1)
    return torch.cat([first.unsqueeze(-1), second], -1)


def _edges(x, width):
    """First samples, and last samples backwards, of every channel: (2, n_trials, n_chans, width).

    Reading the end backwards makes both edges lose their windows in the same way.
    """
    if x.shape[-1] < width:  # a trial shorter than its edge continues into the padding
        return F.pad(torch.stack([x, x.flip(-1)]), (0, width - x.shape[-1]))
    return torch.stack([x[..., :width], x[..., x.shape[-1] - width :].flip(-1)])


def _sum_down(edge, taps):
    """``out[k] = Σ_{i ≥ 1} e[k − i]`` for the ``e[p : K − 1]`` given: (2, n_trials, width) to (…, taps)."""
    width = edge.shape[-1]
    ones = torch.ones(taps, width, dtype=edge.dtype, device=edge.device)
    return edge @ ones.tril(width - taps).mT


def _sum_down_diagonals(gram, taps):
    """``out[k, l] = Σ_{i ≥ 1} G[k − i, l − i]`` for the ``G[p : K − 1, p : K − 1]`` given."""
    # In rows of 2K a step down the diagonal is a stride of 2K + 1: with rows that long the diagonals are
    # columns. The K zeros to the right keep one diagonal from running into the next.
    start = taps - gram.shape[-1]
    flat = F.pad(gram, (start, taps, start, 1)).flatten(-2)
    skewed = flat[..., : taps * (2 * taps + 1)].unflatten(-1, (taps, 2 * taps + 1))
    ones = torch.ones(taps, taps, dtype=gram.dtype, device=gram.device)
    summed = (ones.tril() @ skewed).flatten(-2)[..., : 2 * taps * taps]
    return summed.unflatten(-1, (taps, 2 * taps))[..., :taps]


def fast_length(n):
    """Smallest even number from ``n`` on whose prime factors are 2, 3 and 5: a cheap Fourier length."""
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
    """
    return torch.float32 if x.device.type == "mps" else torch.float64
