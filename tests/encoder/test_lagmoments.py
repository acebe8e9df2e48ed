"""Are the lag moments those of the padded windows, counted one by one?"""

import pytest
import torch
from torch.nn import functional as F

from braindecode_censor.lagmoments import (
    batch_moments,
    convolution_statistics,
    fast_length,
    lag_moments,
    window_moments,
)

LENGTHS = [(40, 64), (100, 33), (5, 64), (10, 1), (10, 2), (9, 3), (31, 64), (30, 64)]


@pytest.mark.parametrize("n_times, taps", LENGTHS)
def test_moments_of_all_windows(n_times, taps):
    x = torch.randn(3, 2, n_times, dtype=torch.float64)
    windows = F.pad(x, (taps // 2, taps // 2)).unfold(-1, taps, 1).reshape(-1, taps)
    first, second = window_moments(x, taps, taps // 2, lag_moments(x, taps).sum(0))
    torch.testing.assert_close(first, windows.sum(0))
    torch.testing.assert_close(second, windows.T @ windows)


@pytest.mark.parametrize("n_times, taps", LENGTHS)
def test_statistics_are_those_of_the_convolution(n_times, taps):
    x = 1 + torch.randn(3, 2, n_times, dtype=torch.float64)
    weight = torch.randn(4, taps, dtype=torch.float64)
    y = F.conv1d(x.reshape(-1, 1, n_times), weight[:, None], padding=taps // 2).transpose(0, 1).flatten(1)
    mean, var, count = convolution_statistics(x, weight, taps // 2, batch_moments(x, taps))
    torch.testing.assert_close(mean, y.mean(1))
    torch.testing.assert_close(var, y.var(1, correction=0))
    assert count == y.shape[1]


def test_moments_of_a_batch_are_the_sum_of_its_rows():
    x = torch.randn(7, 3, 50)
    rows = lag_moments(x, 16, chunk=2)
    assert rows.shape == (7, 17)
    index = torch.tensor([4, 0, 4])
    torch.testing.assert_close(
        rows[index].sum(0, keepdim=True), batch_moments(x[index], 16), rtol=1e-5, atol=1e-4
    )


def test_moments_are_small_beside_the_data():
    x = torch.randn(4, 56, 260)
    moments = lag_moments(x, 64)
    assert moments.nbytes < x.nbytes / 100


@pytest.mark.parametrize("n, length", [(1, 2), (323, 324), (191, 192), (461, 480), (15, 16)])
def test_fast_length(n, length):
    assert fast_length(n) == length
