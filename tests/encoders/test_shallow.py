"""The first block of ShallowFBCSPNet by Fourier transforms equals Braindecode's."""

import copy

import pytest
import torch
from braindecode.models import ShallowFBCSPNet
from braindecode.modules import CombinedConv
from rhythms import simulate

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.encoders.shallow import FastCombinedConv, speed_up

SIZES = {
    "usual": (5, 3, 40, 4, 6, 9),
    "odd length": (5, 3, 41, 4, 6, 10),
    "as long as the trial": (2, 3, 16, 4, 6, 16),
}
BIASES = [(True, True), (True, False), (False, True), (False, False)]
CASES = [(size, biases) for size in SIZES.values() for biases in BIASES]
CASES += [((2, 1, 20, 1, 1, 8), (False, True))]  # one of each, which Braindecode's can without a bias in time


@pytest.mark.parametrize(("size", "biases"), CASES, ids=str)
def test_equal_to_braindecodes(size, biases):
    n, chans, times, n_time, n_space, taps = size
    torch.manual_seed(0)
    stock = CombinedConv(chans, n_time, n_space, taps, *biases).double()
    fast = copy.deepcopy(stock)
    speed_up(fast)
    assert type(fast) is FastCombinedConv
    x = torch.randn(n, 1, times, chans, dtype=torch.float64, requires_grad=True)
    results = [layer(x) for layer in (stock, fast)]
    torch.testing.assert_close(results[1], results[0])
    cotangent = torch.randn_like(results[0])
    expected, gradients = (
        torch.autograd.grad(y, [x, *layer.parameters()], cotangent)
        for y, layer in zip(results, (stock, fast))
    )
    torch.testing.assert_close(gradients, expected)


def test_networks_that_are_replaced():
    """Networks given by name, with filters long enough; no object of the user's, and none with fast=False."""

    def layer_type(module="ShallowFBCSPNet", **options):
        X, y, subjects = simulate(n_subjects=2, n_trials=4, n_chans=2, n_times=128)
        options |= {"penalty": None, "max_steps": 1, "batch_size": 8, "normalize": "none", "augment": None}
        fitted = CensoredEEGClassifier(module, **options).fit(X, y, subjects=subjects)
        return type(fitted.module_.conv_time_spat)

    assert layer_type() is FastCombinedConv
    assert layer_type(fast=False) is CombinedConv
    assert layer_type(module__filter_time_length=5) is CombinedConv
    assert layer_type(ShallowFBCSPNet(n_chans=2, n_outputs=2, n_times=128)) is CombinedConv


def test_a_network_goes_back_and_forth():
    """State dicts are Braindecode's, and compiled or exported graphs hold Braindecode's convolution."""
    stock = ShallowFBCSPNet(n_chans=3, n_outputs=2, n_times=128)
    fast = copy.deepcopy(stock)
    speed_up(fast)
    assert fast.state_dict().keys() == stock.state_dict().keys()
    fast.load_state_dict(stock.state_dict())
    x = torch.randn(2, 3, 128)
    torch.testing.assert_close(fast.eval()(x), stock.eval()(x))
    exported = torch.export.export(fast, (x,))
    torch.testing.assert_close(exported.module()(x), stock(x))
    assert "fft" not in str(exported.graph)
