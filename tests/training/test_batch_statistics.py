"""Adapted batch-norm statistics follow their formula, for every type of layer and in the fast EEGNet."""

import copy

import pytest
import torch
from braindecode.models import EEGNet
from torch import nn

from braindecode_censor import FastEEGNet
from braindecode_censor.training.batch_statistics import adapt_batch_norms


def test_statistics_without_prior_equal_torch():
    """Two batch norms in a row, the second of which sees what the first makes of the trials."""
    torch.manual_seed(0)
    theirs = nn.Sequential(nn.BatchNorm1d(4, momentum=1.0), nn.Tanh(), nn.BatchNorm1d(4, momentum=1.0))
    ours, x = copy.deepcopy(theirs).eval(), torch.randn(200, 4, 30) * 5 + 2
    theirs.train()(x)
    adapt_batch_norms(ours, x, prior=0.0, device="cpu")
    for name, tensor in theirs.state_dict().items():
        if "running" in name:
            torch.testing.assert_close(ours.state_dict()[name], tensor, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_trials", [1, 40, 65])
def test_fast_eegnet_equals_the_stock_one(monkeypatch, n_trials):
    """In its own order of computation; only the trial that lists the layers takes the stock forward."""
    torch.manual_seed(0)
    sizes = {
        "n_chans": 5,
        "n_outputs": 2,
        "n_times": 96,
        "kernel_length": 17,
        "final_layer_with_constraint": True,
    }
    ours, theirs = FastEEGNet(**sizes).eval(), EEGNet(**sizes).eval()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(n_trials, 5, 96) * 3 + 1
    adapt_batch_norms(theirs, x, prior=3.0, device="cpu")
    stock, stock_calls = EEGNet.forward, []
    monkeypatch.setattr(EEGNet, "forward", lambda self, x: stock_calls.append(len(x)) or stock(self, x))
    adapt_batch_norms(ours, x, prior=3.0, device="cpu")
    assert stock_calls == [1]
    assert not any(layer.training for layer in ours.modules())
    state = ours.state_dict()
    for name, tensor in theirs.state_dict().items():
        torch.testing.assert_close(state[name], tensor, rtol=1e-4, atol=1e-5)


class _Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(torch.cat([self.norm(x), x + 2], dim=2))


def test_layer_that_is_called_twice():
    torch.manual_seed(0)
    module, x = _Twice().eval(), torch.randn(70, 3, 8) * 2
    inputs = torch.cat([x, module.norm(x).detach(), x + 2], dim=2).transpose(0, 1).flatten(1)
    adapt_batch_norms(module, x, prior=0.0, device="cpu")
    torch.testing.assert_close(module.norm.running_mean, inputs.mean(1))
    torch.testing.assert_close(module.norm.running_var, inputs.var(1))


class _Frozen(nn.BatchNorm1d):
    def train(self, mode=True):
        return super().train(False)


def _later(change):
    layer = nn.BatchNorm1d(3)
    change(layer)
    return layer


LAYERS = {
    "plain": nn.BatchNorm1d(3),
    "in double precision": nn.BatchNorm1d(3).double(),
    "without momentum": nn.BatchNorm1d(3, momentum=None),
    "frozen": _Frozen(3),
    "not tracking any more": _later(lambda layer: setattr(layer, "track_running_stats", False)),
    "not counting batches": _later(lambda layer: setattr(layer, "num_batches_tracked", None)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_types_of_batch_norm(name):
    torch.manual_seed(0)
    layer = copy.deepcopy(LAYERS[name]).eval()
    x = torch.randn(130, 3, 6, dtype=layer.weight.dtype) * 3 + 1
    flat = x.transpose(0, 1).flatten(1)
    layer.running_mean += torch.tensor([1, 2, 3])
    adapt_batch_norms(nn.Sequential(layer), x, prior=65.0, device="cpu")
    torch.testing.assert_close(layer.running_mean, (2 * flat.mean(1) + torch.tensor([1, 2, 3])) / 3)
    torch.testing.assert_close(layer.running_var, (2 * flat.var(1) + 1) / 3)
    assert not layer.training and layer.momentum == LAYERS[name].momentum


def test_single_number():
    layer = nn.BatchNorm1d(2).eval()
    adapt_batch_norms(nn.Sequential(layer), torch.tensor([[4.0, -4.0]]), prior=1.0, device="cpu")
    assert layer.running_mean.tolist() == [2, -2] and layer.running_var.tolist() == [0.5, 0.5]
    assert layer.momentum == 0.1 and layer.num_batches_tracked == 0
