"""FastEEGNet computes the numbers of Braindecode's EEGNet."""

import pytest
import torch
from encoders.pairs import SHAPES, TOLERANCE, assert_same, batch, pair, step
from torch import nn
from torch.nn import functional as F

from braindecode_censor.encoders.lagmoments import lag_moments

each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype)[6:])
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@each_dtype
@each_shape
def test_training_and_evaluation_equal_stock(shape, dtype):
    n_chans, n_times, options = shape
    stock, fast = pair(n_chans, n_times, dtype, **options)
    x, y = batch(n_chans, n_times, dtype)
    moments = lag_moments(x, fast.kernel_length, chunk=4)  # Fewer than there are trials.
    for kwargs in ({}, {"moments": moments}):  # The second step starts from updated buffers.
        assert_same(step(fast, x, y, **kwargs), step(stock, x, y), TOLERANCE[dtype])
        assert_same(fast.state_dict(), stock.state_dict(), TOLERANCE[dtype])
    before = {name: value.clone() for name, value in fast.state_dict().items()}
    assert_same(step(fast.eval(), x, y), step(stock.eval(), x, y), TOLERANCE[dtype])
    assert_same(fast.state_dict(), before, 0.0)


@each_dtype
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_twenty_steps_with_dropout_equal_stock(optimizer, dtype):
    stock, fast = pair(16, 128, dtype)
    truth, _ = pair(16, 128, torch.float64)
    x, y = batch(16, 128, torch.float64, n_trials=16)
    for model in (stock, fast, truth):
        torch.manual_seed(9)
        optim = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-3)
        for _ in range(20):
            optim.zero_grad()
            F.cross_entropy(model(x.to(model.conv_temporal.weight.dtype)), y).backward()
            optim.step()
    states = {model: dict(model.state_dict()) for model in (stock, fast, truth)}
    if optimizer == "AdamW" and dtype == torch.float32:
        # This gradient is zero, but for stock EEGNet's rounding errors, and Adam divides them by their own
        # size. Stock in double precision is the reference for the bias, and the mean that depends on it.
        for name in ("bnorm_temporal.bias", "bnorm_1.running_mean"):
            exact = states[truth].pop(name)
            error = {m: (states[m].pop(name).double() - exact).abs().max().item() for m in (stock, fast)}
            assert error[fast] < 1e-5 < error[stock]
    assert_same(states[fast], states[stock], TOLERANCE[dtype])
    exact = truth.eval()(x)
    assert_same({"output": fast.eval()(x.to(dtype))}, {"output": exact}, TOLERANCE[dtype])


@each_dtype
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_gradient_in_the_input_equals_stock_even_with_moments(training, dtype):
    stock, fast = pair(5, 90, dtype)
    x, y = batch(5, 90, dtype)
    gradients = []
    for model, kwargs in ((stock, {}), (fast, {"moments": fast.lag_moments(x)})):
        leaf = x.clone().requires_grad_()
        torch.manual_seed(3)
        F.cross_entropy(model.train(training)(leaf, **kwargs), y).backward()
        gradients.append(leaf.grad)
    scale = gradients[0].abs().max().item()
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=TOLERANCE[dtype] * scale)


def test_two_forward_passes_before_one_backward_equal_stock():
    stock, fast = pair(5, 90, torch.float64, drop_prob=0.0)
    first, y = batch(5, 90, torch.float64)
    second, _ = batch(5, 90, torch.float64, seed=2)
    gradients = []
    for model in (stock, fast):
        loss = F.cross_entropy(model(first), y) + F.cross_entropy(model(second), y)
        loss.backward()
        gradients.append({name: value.grad for name, value in model.named_parameters()})
    assert_same(gradients[1], gradients[0], 1e-10)
    assert_same(fast.state_dict(), stock.state_dict(), 1e-10)


def freeze(name):
    return lambda model: model.get_submodule(name).eval()


def remove_affine(model):
    # Braindecode's constructor cannot build batch_norm_affine=False, so the layers are replaced afterwards.
    for name in ("bnorm_temporal", "bnorm_1", "bnorm_2"):
        width = model.get_submodule(name).num_features
        model.set_submodule(name, nn.BatchNorm2d(width, affine=False).double())


@pytest.mark.parametrize("change", [freeze("bnorm_temporal"), freeze("bnorm_1"), remove_affine])
def test_changed_norms_equal_stock(change):
    stock, fast = pair(5, 90, torch.float64)
    x, y = batch(5, 90, torch.float64)
    change(stock), change(fast)
    assert_same(step(fast, x, y), step(stock, x, y), 1e-10)
    assert_same(fast.state_dict(), stock.state_dict(), 1e-10)


def test_large_offset_and_smooth_signals_stay_exact_in_float32():
    stock, fast = pair(8, 200)
    exact, _ = pair(8, 200, torch.float64)
    time = torch.linspace(0, 6, 200, dtype=torch.float64)
    x = 20 + torch.sin(time * torch.arange(1, 9)[:, None]).repeat(6, 1, 1)
    x = x + 1e-2 * torch.randn(x.shape, dtype=torch.float64)
    y = torch.arange(6) % 3
    truth = step(exact, x, y)
    errors = []
    for model in (stock, fast):
        result = step(model, x.float(), y)
        errors.append(max((result[name] - truth[name]).abs().max().item() for name in truth))
    assert errors[1] < max(2 * errors[0], 1e-5)
