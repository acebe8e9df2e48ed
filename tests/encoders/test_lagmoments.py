"""Lag moments are those of the padded windows, counted one by one."""

import pytest
import torch
from torch.nn import functional as F

from braindecode_censor.encoders.lagmoments import batch_covariance, batch_moments, fast_length, lag_moments

LENGTHS = [(40, 64), (100, 33), (5, 64), (10, 1), (10, 2), (9, 3), (31, 64), (30, 64)]


@pytest.mark.parametrize("n_times, taps", LENGTHS)
def test_moments_of_all_windows_of_each_trial(n_times, taps):
    x = torch.randn(3, 2, n_times, dtype=torch.float64)
    moments = lag_moments(x, taps, chunk=2)
    assert moments.shape == (3, taps, 1 + taps)
    for trial, moment in zip(x, moments):
        windows = F.pad(trial, (taps // 2, taps // 2)).unfold(-1, taps, 1).reshape(-1, taps)
        torch.testing.assert_close(moment[:, 0], windows.sum(0))
        torch.testing.assert_close(moment[:, 1:], windows.T @ windows)


@pytest.mark.parametrize("n_times, taps", LENGTHS)
def test_statistics_are_those_of_the_convolution(n_times, taps):
    x = 1 + torch.randn(3, 2, n_times, dtype=torch.float64)
    weight = torch.randn(4, taps, dtype=torch.float64)
    y = F.conv1d(x.reshape(-1, 1, n_times), weight[:, None], padding=taps // 2).transpose(0, 1).flatten(1)
    mean, covariance = batch_covariance(batch_moments(x, taps, taps // 2), y.shape[1])
    torch.testing.assert_close(weight @ mean, y.mean(1))
    torch.testing.assert_close(((weight @ covariance) * weight).sum(1), y.var(1, correction=0))


def test_moments_of_a_batch_are_the_sum_of_its_rows():
    x = torch.randn(7, 3, 50)
    index = torch.tensor([4, 0, 4])
    rows = lag_moments(x, 16)[index].sum(0, keepdim=True)
    torch.testing.assert_close(rows.double(), batch_moments(x[index], 16, 8), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n, length", [(1, 2), (323, 324), (191, 192), (461, 480), (15, 16)])
def test_fast_length(n, length):
    assert fast_length(n) == length
