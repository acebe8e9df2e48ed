"""Filters and convolutions in time, in the fastest form for each device and transform."""

import torch
from torch.nn import functional as F

from braindecode_censor.encoders.lagmoments import fast_length
from braindecode_censor.encoders.norm import is_eager


def mix_and_filter(x, mixing, weight, offset, padding):
    """Mix channels, filter each mixture in time and add a constant; return (n_trials, F1 · D, 1, n_out).

    ``y[n, fd, t] = Σ_k w[f, k] Σ_c u[fd, c] x̃[n, c, t + k] + o[fd]`` with ``x̃`` zero-padded on either side.
    """
    depth = mixing.shape[0] // weight.shape[0]
    mixed = torch.bmm(x.mT, mixing.T.expand(x.shape[0], -1, -1)).mT
    if prefers_channels_last(mixed):  # The mixtures, not x: under autocast they have half precision.
        return _DepthwiseFilter.apply(mixed.unsqueeze(2), weight, offset, padding)
    groups = mixed.unflatten(1, (-1, depth)).transpose(0, 1)
    y = toeplitz_filter(groups.flatten(1, 2), weight, padding)
    y = y.unflatten(1, (-1, depth)).transpose(0, 1).flatten(1, 2)
    return (y if offset is None else y + offset.unsqueeze(1)).unsqueeze(2)


def prefers_channels_last(x):
    """Return True if convolutions of few channels are fastest with the channels last in memory.

    oneDNN's depthwise convolution is then the fastest filter, but only for eager float32 on the CPU. Under ``vmap``
    it copies, ``torch.compile`` fuses plain operations better, and GPUs prefer large matrix products.
    """
    return x.device.type == "cpu" and x.dtype == torch.float32 and is_eager()


class _DepthwiseFilter(torch.autograd.Function):
    """Correlation of each signal with its filter: a depthwise convolution with cheap gradients.

    The gradient in the signal is a convolution again. The gradient in the weights is a product of spectra, since
    oneDNN's takes ten times longer than the forward pass.
    """

    @staticmethod
    def forward(ctx, s, weight, offset, padding):
        """Return the filtered signals."""
        ctx.save_for_backward(s, weight)
        ctx.padding = padding
        return _depthwise(s, weight, offset, padding)

    @staticmethod
    def backward(ctx, grad):
        """Return the gradients in the signals, the filters and the constants."""
        s, weight = ctx.saved_tensors
        taps = weight.shape[1]
        grad_s = _depthwise(grad, weight.flip(1), None, taps - 1 - ctx.padding)
        grad_weight = cross_correlation(grad.squeeze(2), s.squeeze(2), -ctx.padding, weight.shape)
        grad_offset = grad.sum((0, 2, 3)) if ctx.needs_input_grad[2] else None
        return grad_s, grad_weight, grad_offset, None


def _depthwise(s, weight, bias, padding):
    """Return signals (n_trials, n_signals, 1, n_times), correlated with the filters (F1, K) of their groups."""
    n_signals = s.shape[1]
    weight = weight.repeat_interleave(n_signals // weight.shape[0], 0)[:, None, None]
    return F.conv2d(s, weight, bias, padding=(0, padding), groups=n_signals)


def convolve_channels_last(h, weight, padding):
    """Return a dense convolution in time, computed with the channels last in memory."""
    return _ChannelsLastConvolution.apply(h.contiguous(memory_format=torch.channels_last), weight, padding)


class _ChannelsLastConvolution(torch.autograd.Function):
    """Dense convolution whose gradient in the weights is a convolution too, which halves the backward pass."""

    @staticmethod
    def forward(ctx, h, weight, padding):
        """Return the convolution; the arguments are those of :func:`convolve_channels_last`."""
        ctx.save_for_backward(h, weight)
        ctx.padding = padding
        return F.conv2d(h, weight, padding=(0, padding))

    @staticmethod
    def backward(ctx, grad):
        """Return the gradients in the signals and the filters."""
        h, weight = ctx.saved_tensors
        turned = weight.flip(-1).transpose(0, 1)
        grad_h = F.conv2d(grad, turned, padding=(0, weight.shape[-1] - 1 - ctx.padding))
        # Sums over trials and samples: a convolution whose channels are the trials, again last in memory.
        by_trial = (side.transpose(0, 1).contiguous(memory_format=torch.channels_last) for side in (h, grad))
        return grad_h, F.conv2d(*by_trial, padding=(0, ctx.padding)).transpose(0, 1), None


def cross_correlation(g, s, first_lag, shape):
    """Return the cross-correlation (n_groups, n_lags), summed over trials and the signals of a group.

    ``r[i, j] = Σ g[n, id, t] s[n, id, t + first_lag + j]``, the sum running over trials, ``d`` and ``t``.
    """
    n_groups, n_lags = shape
    if g.shape[-1] * (g.shape[-1] + n_lags) <= 2**15:
        return _short_cross_correlation(g, s, first_lag, shape)
    reach = max(-first_lag, first_lag + n_lags - 1)  # longer by the reach, so that nothing wraps around
    n_fft = fast_length(max(g.shape[-1] + reach, s.shape[-1] + reach, n_lags))
    product = torch.fft.rfft(g, n_fft).conj() * torch.fft.rfft(s, n_fft)
    groups = product.sum(0).unflatten(0, (n_groups, -1)).sum(1)
    return torch.fft.irfft(groups, n_fft).roll(-first_lag, -1)[:, :n_lags]


def _short_cross_correlation(g, s, first_lag, shape):
    """Return the same for short signals: products of all pairs of samples, summed along the diagonals."""
    n_groups, n_lags = shape
    n_trials, _, n_out = g.shape
    g, s = (side.reshape(n_trials, n_groups, -1, side.shape[-1]).transpose(0, 1) for side in (g, s))
    padded = s.new_zeros(*s.shape[:3], n_out + n_lags - 1)
    s = s[..., : padded.shape[-1] + first_lag]  # Samples further right have no counterpart.
    padded[..., -first_lag : s.shape[-1] - first_lag] = s
    products = torch.bmm(g.flatten(1, 2).mT, padded.flatten(1, 2))
    per_group, per_row, _ = products.stride()
    return products.as_strided((n_groups, n_out, n_lags), (per_group, per_row + 1, 1)).sum(1)


def toeplitz_filter(s, weight, padding, block=64):
    """Correlate rows (n_filters, n_rows, n_times) with their filters, as products with a banded Toeplitz matrix.

    The output is computed in blocks, so that the size of the matrix does not depend on the length of the signal.
    Plain operations only: gradients of any order, ``vmap`` and ``torch.compile``.
    """
    n_filters, n_rows, n_times = s.shape
    taps = weight.shape[1]
    n_out = n_times + 2 * padding - taps + 1
    windows = _windows(s, taps, padding, block, n_out)
    band = _band(weight, block, windows.shape[-1])
    return torch.bmm(windows.flatten(1, 2), band.mT).view(n_filters, n_rows, -1)[..., :n_out]


def toeplitz_convolve(h, weight, padding, block=32):
    """Return a dense convolution in time as one matrix product, with blocks as in :func:`toeplitz_filter`."""
    n_out, n_in, taps = weight.shape
    length = h.shape[-1] + 2 * padding - taps + 1
    windows = _windows(h, taps, padding, block, length).transpose(1, 2)  # trials, blocks, inputs, samples
    band = _band(weight.flatten(0, 1), block, windows.shape[-1]).unflatten(0, (n_out, n_in)).transpose(1, 2)
    y = windows.flatten(0, 1).flatten(1) @ band.flatten(0, 1).flatten(1).mT
    y = y.unflatten(0, (len(h), -1)).unflatten(-1, (n_out, block)).transpose(1, 2).flatten(2)
    return y[..., :length]


def _windows(s, taps, padding, block, length):
    """Return overlapping windows (..., n_blocks, reach · block) of padded signals, one per block of the output."""
    n_blocks = -(-length // block)
    reach = 1 + -(-(taps - 1) // block)  # blocks of input per block of output
    padding_after = (n_blocks + reach - 1) * block - s.shape[-1] - padding
    blocks = F.pad(s, (padding, padding_after)).unflatten(-1, (-1, block))
    # Concatenated, because the backward pass of unfold has no batching rule.
    return torch.cat([blocks[..., j : j + n_blocks, :] for j in range(reach)], -1)


def _band(weight, n_rows, n_cols):
    """Return the banded Toeplitz matrix of each filter: ``out[f, i, i + k] = w[f, k]``, zero elsewhere."""
    # Repeated with a period one longer than a row, the padded filter shifts by one from row to row.
    period = F.pad(weight, (0, n_cols + 1 - weight.shape[1]))
    flat = period.unsqueeze(1).expand(-1, n_rows, -1).flatten(1)
    return flat[:, : n_rows * n_cols].unflatten(1, (n_rows, n_cols))
