"""FastEEGNet equals stock EEGNet under vmap, torch.compile, second derivatives and on a GPU."""

import copy

import pytest
import torch
from encoders.pairs import TOLERANCE, assert_same, batch, pair, step
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn import functional as F

from braindecode_censor.encoders.filters import _DepthwiseFilter

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def fleet(dtype, device="cpu", n_replicas=3, **options):
    pairs = [pair(5, 90, dtype, seed=i, **options) for i in range(n_replicas)]
    stock, fast = zip(*[(s.to(device), f.to(device)) for s, f in pairs])
    x, y = zip(*[batch(5, 90, dtype, seed=i) for i in range(n_replicas)])
    moments = torch.stack([fast[0].lag_moments(one) for one in x])
    return stock, fast, [torch.stack(x).to(device), torch.stack(y).to(device), moments.to(device)]


def vmapped_step(fast, data, **randomness):
    params, buffers = stack_module_state(list(fast))
    base = copy.deepcopy(fast[0])

    def loss(params, buffers, x, y, moments=None):
        return F.cross_entropy(functional_call(base, (params, buffers), (x,), {"moments": moments}), y)

    gradients = vmap(grad(loss), **randomness)(params, buffers, *data)
    return gradients, buffers


def check_fleet(stock, fast, data, tolerance):
    gradients, buffers = vmapped_step(fast, data)
    x, y = data[:2]
    for i, model in enumerate(stock):
        F.cross_entropy(model(x[i]), y[i]).backward()
        single = {name: value.grad for name, value in model.named_parameters()} | dict(model.named_buffers())
        assert_same({name: value[i] for name, value in (gradients | buffers).items()}, single, tolerance)


@pytest.mark.filterwarnings("error:There is a performance drop")  # an operation that loops over replicas
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("cached", [True, False], ids=["cached", "plain"])
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_vmap_equals_stock_for_every_replica(training, cached, dtype):
    stock, fast, data = fleet(dtype, drop_prob=0.0)
    for model in (*stock, *fast):
        model.train(training)
    if not cached:
        data = data[:2]
    check_fleet(stock, fast, data, TOLERANCE[dtype])


def test_vmap_draws_different_dropout_for_each_replica():
    _, fast, data = fleet(torch.float32)
    same = [fast[0], fast[0]]
    data = [value[:1].expand(2, *value.shape[1:]) for value in data]
    gradients, _ = vmapped_step(same, data, randomness="different")
    weight = gradients["conv_temporal.weight"]
    assert torch.isfinite(weight).all()
    assert (weight[0] - weight[1]).abs().max() > 1e-4


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_compiled_model_equals_stock(training):
    torch._dynamo.reset()
    stock, fast = pair(5, 90, drop_prob=0.0)
    x, y = batch(5, 90)
    stock.train(training), fast.train(training)
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    out = compiled(x, moments=fast.lag_moments(x))
    F.cross_entropy(out, y).backward()
    result = {"output": out, **{name: value.grad for name, value in fast.named_parameters()}}
    assert_same(result, step(stock, x, y), 1e-5)
    assert_same(fast.state_dict(), stock.state_dict(), 1e-5)


@pytest.mark.parametrize("taps, padding, n_times", [(5, 2, 9), (4, 2, 7), (1, 0, 6), (9, 4, 3)])
def test_depthwise_filter_has_right_first_and_second_derivatives(taps, padding, n_times):
    s = torch.randn(2, 6, 1, n_times, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, taps, dtype=torch.float64, requires_grad=True)
    offset = torch.randn(6, dtype=torch.float64, requires_grad=True)
    apply = _DepthwiseFilter.apply
    torch.autograd.gradcheck(lambda *tensors: apply(*tensors, padding), (s, weight, offset))
    torch.autograd.gradgradcheck(lambda *tensors: apply(*tensors, padding), (s, weight, offset))


@needs_cuda
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_cuda_step_and_fleet_equal_stock(training, dtype, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # stock would round to 10 bits
    stock, fast, data = fleet(dtype, "cuda", drop_prob=0.0)
    for model in (*stock, *fast):
        model.train(training)
    check_fleet(stock, fast, data, TOLERANCE[dtype])
    stock, fast = (model.cuda().train(training) for model in pair(16, 128, dtype))
    x, y = (value.cuda() for value in batch(16, 128, dtype))
    assert_same(step(fast, x, y), step(stock, x, y), TOLERANCE[dtype])
    assert_same(fast.state_dict(), stock.state_dict(), TOLERANCE[dtype])
