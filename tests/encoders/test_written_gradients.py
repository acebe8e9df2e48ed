"""Hand-written gradients of the encoder equal those of autograd and of torch's operations."""

import pytest
import torch
from torch.nn import functional as F

from braindecode_censor.encoders.eegnet import FastEEGNet, MaxNorm


def test_half_precision_by_autocast():
    model = FastEEGNet(n_chans=4, n_outputs=2, n_times=128)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(8, 4, 128)).float().square().mean()
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0], ids=["all short", "some long", "all long"])
@pytest.mark.parametrize("shape", [(6, 9), (6, 1, 5, 1)], ids=str)
def test_max_norm_is_renorm(shape, scale):
    lengths = torch.linspace(0.5, 1.5, 6, dtype=torch.float64).view(-1, *[1] * (len(shape) - 1))
    weight, cotangent = torch.randn(2, *shape, dtype=torch.float64)
    weight = (F.normalize(weight.flatten(1)).view(shape) * lengths * scale).requires_grad_()
    outputs = actual, expected = MaxNorm(1.0)(weight), weight.renorm(2, 0, 1.0)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
    gradients = (torch.autograd.grad(output, weight, cotangent)[0] for output in outputs)
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)
    nothing_done = type(actual.grad_fn).__name__ == "CloneBackward0"
    assert nothing_done == (scale == 0.1), "work where none is to be done, or none where some is"
    assert actual.data_ptr() != weight.data_ptr()
    torch.autograd.gradgradcheck(MaxNorm(1.0), weight)


def test_rows_of_zeros_under_a_norm_of_zero_are_pushed_nowhere():
    weight = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    MaxNorm(0.0)(weight).sum().backward()
    assert weight.grad.isfinite().all()
    assert MaxNorm(1.0)(torch.empty(0, 4)).shape == (0, 4)
