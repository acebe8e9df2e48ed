"""Products of filters and windows equal torch's convolutions."""

import pytest
import torch
from torch.func import vmap
from torch.nn import functional as F

from braindecode_censor.fleet.convolution import convolve

CASES = {
    "in time": (F.conv1d, (5, 4, 20), (6, 4, 3), {}),
    "padded": (F.conv1d, (5, 4, 20), (6, 4, 3), {"padding": 1}),
    "same, even": (F.conv1d, (5, 4, 20), (6, 4, 4), {"padding": "same"}),
    "dilated": (F.conv1d, (5, 4, 20), (6, 4, 3), {"dilation": 4, "padding": (2,)}),
    "strided": (F.conv1d, (5, 4, 20), (6, 4, 3), {"stride": 3}),
    "groups": (F.conv1d, (5, 4, 20), (6, 2, 3), {"groups": 2}),
    "time of every channel": (F.conv2d, (5, 1, 3, 20), (6, 1, 1, 7), {"padding": (0, 3)}),
    "space": (F.conv2d, (5, 4, 3, 20), (6, 4, 3, 1), {}),
    "depthwise space": (F.conv2d, (5, 4, 3, 20), (8, 1, 3, 1), {"groups": 4}),
    "time and space": (F.conv2d, (5, 1, 20, 3), (6, 1, 7, 3), {}),
    "everything": (F.conv2d, (5, 4, 9, 8), (6, 2, 3, 2), {"groups": 2, "stride": (2, 1), "dilation": (1, 3)}),
    "wide": (F.conv1d, (5, 128, 9), (2, 128, 3), {"padding": "same"}),
}


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(("function", "signals", "filters", "options"), CASES.values(), ids=CASES)
def test_convolve_equals_torch(function, signals, filters, options, bias):
    torch.manual_seed(0)
    sizes = [(3, *signals), (3, *filters), (3, filters[0])][: 2 + bias]
    inputs = [torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in sizes]
    actual = vmap(lambda *row: convolve(*row, **options))(*inputs)
    expected = torch.stack([function(*row, **options) for row in zip(*inputs)])
    torch.testing.assert_close(actual, expected)
    cotangent = torch.randn_like(expected)
    for one, other in zip(*(torch.autograd.grad(y, inputs, cotangent) for y in (actual, expected))):
        torch.testing.assert_close(one, other)


def test_filters_may_be_shared():
    x, weight = torch.randn(3, 5, 4, 20), torch.randn(6, 4, 3)
    actual = vmap(lambda x: convolve(x, weight))(x)
    torch.testing.assert_close(actual, torch.stack([F.conv1d(one, weight) for one in x]))
