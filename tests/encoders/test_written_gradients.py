"""Hand-written gradients of the encoder equal those of autograd and of torch's operations."""

import pytest
import torch
from torch.nn import functional as F

from braindecode_censor.encoders import filters
from braindecode_censor.encoders.eegnet import FastEEGNet, MaxNorm


def test_half_precision_by_autocast():
    model = FastEEGNet(n_chans=4, n_outputs=2, n_times=128)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(8, 4, 128)).float().square().mean()
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_same_gradients(actual, expected, leaves):
    cotangent = randn(*expected.shape, seed=9)
    torch.testing.assert_close(actual, expected, **CLOSE)
    pairs = (torch.autograd.grad(output, leaves, cotangent) for output in (actual, expected))
    for one, other in zip(*pairs, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0], ids=["all short", "some long", "all long"])
@pytest.mark.parametrize("shape", [(6, 9), (6, 1, 5, 1)], ids=str)
def test_max_norm_is_renorm(shape, scale):
    lengths = torch.linspace(0.5, 1.5, 6, dtype=torch.float64).view(-1, *[1] * (len(shape) - 1))
    weight = F.normalize(randn(*shape).flatten(1)).view(shape) * lengths * scale
    weight.requires_grad_()
    actual = MaxNorm(1.0)(weight)
    assert_same_gradients(actual, weight.renorm(2, 0, 1.0), [weight])
    nothing_done = type(actual.grad_fn).__name__ == "CloneBackward0"
    assert nothing_done == (scale == 0.1), "work where none is to be done, or none where some is"
    assert actual.data_ptr() != weight.data_ptr()
    torch.autograd.gradgradcheck(MaxNorm(1.0), weight)


@pytest.mark.parametrize("padding", [0, 2, 3, 7])
@pytest.mark.parametrize(("n_in", "n_out", "taps", "n_times"), [(3, 5, 8, 20), (1, 1, 4, 8), (4, 2, 1, 6)])
def test_convolution_with_channels_last(n_in, n_out, taps, n_times, padding):
    padding = min(padding, taps - 1)
    h = randn(6, n_in, 1, n_times).requires_grad_()
    weight = randn(n_out, n_in, 1, taps, seed=1).requires_grad_()
    actual = filters.convolve_channels_last(h, weight, padding)
    assert_same_gradients(actual, F.conv2d(h, weight, padding=(0, padding)), [h, weight])


@pytest.mark.parametrize(
    ("n_out", "n_times", "first_lag", "n_lags"),
    [(9, 8, -2, 4), (5, 12, 0, 8), (6, 3, -6, 9), (11, 20, -2, 4)],
)
def test_short_signals_are_correlated_as_long_ones(n_out, n_times, first_lag, n_lags):
    g, s = randn(4, 6, n_out), randn(4, 6, n_times, seed=1)
    actual = filters.cross_correlation(g, s, first_lag, (3, n_lags))
    padded = F.pad(s, (50, 50))
    for j in range(n_lags):
        start = 50 + first_lag + j
        products = (g * padded[..., start : start + n_out]).sum((0, 2)).view(3, 2).sum(1)
        torch.testing.assert_close(actual[:, j], products, **CLOSE)


def test_rows_of_zeros_under_a_norm_of_zero_are_pushed_nowhere():
    weight = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    MaxNorm(0.0)(weight).sum().backward()
    assert weight.grad.isfinite().all()
    assert MaxNorm(1.0)(torch.empty(0, 4)).shape == (0, 4)
