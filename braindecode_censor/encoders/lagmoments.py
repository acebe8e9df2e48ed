"""Batch statistics of a temporal convolution, without the convolution.

A bank of filters ``w`` of ``K`` taps runs over every channel of every trial, zero-padded by ``p`` on either
side (``x̃``). The batch normalisation that follows needs two numbers per filter:

    μ_f = w_fᵀ m / n,   var_f = w_fᵀ R w_f / n − μ_f²,   n = n_trials · n_chans · n_out,
    m[k] = Σ x̃[t + k],   R[k, l] = Σ x̃[t + k] x̃[t + l]      (sums over trials, channels and 0 ≤ t < n_out).

``R`` depends on the data only. Summed over all integers ``t`` it would be the Toeplitz matrix of the
autocorrelation ``ρ``. The omitted positions involve only the first and the last ``q = K − 1 − p`` samples, so
two ``q × q`` Gram matrices ``L`` and ``E`` of these edges correct it::

    R[k, l] = ρ[|k − l|] − Σ_{i ≥ 1} L[k − i, l − i] − Σ_{i ≥ 0} E[k + i, l + i].
"""

import torch
from torch.nn import functional as F


def lag_moments(x, kernel_length, padding=None, *, chunk=64):
    """Return the moments ``m`` and ``R`` of every trial, shape (n_trials, K, 1 + K)."""
    padding = kernel_length // 2 if padding is None else padding
    chunks = [_moments(trials, kernel_length, padding, wide_dtype(x)) for trials in x.split(chunk)]
    return torch.cat(chunks).to(x.dtype)


def batch_moments(x, kernel_length, padding):
    """Return the summed moments (1, K, 1 + K) of a batch, for a training step without :func:`lag_moments`."""
    return _moments(x.flatten(0, 1).unsqueeze(0), kernel_length, padding, x.dtype)


def batch_covariance(moments, count):
    """Return the mean (K,) and the covariance (K, K) of all windows of a batch."""
    total = moments.sum(0).to(wide_dtype(moments)) / count
    mean = total[:, 0]
    return mean, total[:, 1:] - mean.unsqueeze(1) * mean


def _moments(x, taps, padding, dtype):
    """Return the moments of each trial, with the Fourier transform in ``dtype``; see :func:`lag_moments`."""
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
    """Return the first samples and the reversed last samples of every channel: (2, n_trials, n_chans, width).

    In reversed order the end lacks windows in the same way as the start.
    """
    if x.shape[-1] < width:  # A trial shorter than its edge continues into the padding.
        return F.pad(torch.stack([x, x.flip(-1)]), (0, width - x.shape[-1]))
    return torch.stack([x[..., :width], x[..., x.shape[-1] - width :].flip(-1)])


def _sum_down(edge, taps):
    """Return ``out[k] = Σ_{i ≥ 1} e[k − i]`` from ``e[p : K − 1]``: (2, n_trials, width) to (…, taps)."""
    width = edge.shape[-1]
    ones = torch.ones(taps, width, dtype=edge.dtype, device=edge.device)
    return edge @ ones.tril(width - taps).mT


def _sum_down_diagonals(gram, taps):
    """Return ``out[k, l] = Σ_{i ≥ 1} G[k − i, l − i]`` from ``G[p : K − 1, p : K − 1]``."""
    # In rows of length 2K a step along the diagonal is a stride of 2K + 1, so with rows of that length the
    # diagonals are columns. The K zeros on the right separate consecutive diagonals.
    start = taps - gram.shape[-1]
    flat = F.pad(gram, (start, taps, start, 1)).flatten(-2)
    skewed = flat[..., : taps * (2 * taps + 1)].unflatten(-1, (taps, 2 * taps + 1))
    ones = torch.ones(taps, taps, dtype=gram.dtype, device=gram.device)
    summed = (ones.tril() @ skewed).flatten(-2)[..., : 2 * taps * taps]
    return summed.unflatten(-1, (taps, 2 * taps))[..., :taps]


def fast_length(n):
    """Return the smallest even number from ``n`` on with prime factors 2, 3 and 5 only, a fast Fourier length."""
    while True:
        cofactor = n
        for prime in (2, 3, 5):
            while cofactor % prime == 0:
                cofactor //= prime
        if cofactor == 1 and n % 2 == 0:
            return n
        n += 1


def wide_dtype(x):
    """Return double precision if the device supports it.

    If a filter rejects most of the signal, the variance is a small difference of large sums.
    """
    return torch.float32 if x.device.type == "mps" else torch.float64
