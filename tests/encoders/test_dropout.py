"""FastEEGNet draws the masks of torch's dropout, for every layer and memory format."""

import pytest
import torch
from encoders.pairs import assert_same, batch, pair, step
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from braindecode_censor.encoders import dropout
from braindecode_censor.encoders.dropout import dropout_mask


@pytest.fixture(params=["as here", "as elsewhere"])
def build(request, monkeypatch):
    """This build of torch, and one whose masks do not follow from uniform numbers."""
    if request.param == "as elsewhere":
        monkeypatch.setattr(dropout, "_compares_uniforms", lambda: False)


@pytest.mark.parametrize("p", [0.1, 0.25, 1 / 3, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(64, 16, 1, 32), (3, 5, 1, 7), (1, 1, 1, 1), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mask_and_next_number_are_those_of_torch(build, p, shape, dtype):
    torch.manual_seed(3)
    expected, following = F.dropout(torch.ones(shape, dtype=dtype), p), torch.rand(3)
    torch.manual_seed(3)
    order = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    mask = dropout_mask(shape, p, dtype, memory_format=order)
    assert mask.is_contiguous(memory_format=order) and mask.dtype == dtype
    torch.testing.assert_close(mask, expected, rtol=0, atol=0)
    torch.testing.assert_close(torch.rand(3), following, rtol=0, atol=0)


@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("layer", [torch.nn.Dropout, torch.nn.Dropout2d, torch.nn.AlphaDropout])
def test_dropout_layers_of_any_kind_equal_stock(build, layer, p):
    stock, fast = pair(6, 128)
    for model in (stock, fast):
        model.drop_1, model.drop_2 = layer(p), layer(p)
    x, y = batch(6, 128)
    assert_same(step(fast, x, y), step(stock, x, y), 1e-5)


def test_only_layers_in_training_mode_drop():
    stock, fast = pair(6, 128)
    x, _ = batch(6, 128)
    for model in (stock, fast):
        model.eval()
        model.drop_1.train()  # as in Monte Carlo dropout
    torch.manual_seed(0)
    expected = stock(x)
    torch.manual_seed(0)
    torch.testing.assert_close(fast(x), expected, rtol=1e-5, atol=1e-5)
    assert not torch.equal(fast(x), fast(x))


def test_dropout_layer_with_a_hook_or_a_change_is_called():
    x, y = batch(6, 128)
    _, fast = pair(6, 128)
    calls = []
    fast.drop_1.register_full_backward_hook(lambda *_: calls.append("after"))
    fast.drop_2.register_full_backward_pre_hook(lambda *_: calls.append("before"))
    step(fast, x, y)
    assert sorted(calls) == ["after", "before"]
    _, fast = pair(6, 128)
    fast.drop_1.forward, fast.drop_2.p = lambda h: 0 * h, 0.0
    torch.testing.assert_close(fast(x), fast(0 * x))


def test_fake_tensors_and_another_default_device():
    dropout._compares_uniforms.cache_clear()
    _, fast = pair(6, 128)
    x, _ = batch(6, 128)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert fast(mode.from_tensor(x)).shape == (6, 3)
    _, fast = pair(6, 128)
    with torch.device("meta"):
        assert fast(x).device.type == "cpu"
