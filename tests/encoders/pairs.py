"""A stock and a fast EEGNet with the same weights, and a batch for both."""

import torch
from braindecode.models import EEGNet
from torch.nn import functional as F

from braindecode_censor.encoders.eegnet import FastEEGNet

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}

# n_chans, n_times, options: one channel to many, short to long, odd and even kernels, other widths
SHAPES = {
    "default-56x260": (56, 260, {}),
    "default-16x128": (16, 128, {}),
    "one-channel": (1, 200, {}),
    "shorter-than-edge": (4, 40, {"kernel_length": 100, "pool2_kernel_size": 4}),
    "odd-kernels": (5, 150, {"kernel_length": 33, "depthwise_kernel_length": 7}),
    "one-tap": (5, 90, {"kernel_length": 1, "depthwise_kernel_length": 1}),
    "two-taps": (5, 90, {"kernel_length": 2}),
    "even-kernels": (7, 99, {"kernel_length": 10, "depthwise_kernel_length": 4}),
    "long-kernel": (2, 250, {"kernel_length": 125}),
    "F1-1-D-3": (6, 128, {"F1": 1, "D": 3}),
    "F1-6-D-4-F2-9": (9, 128, {"F1": 6, "D": 4, "F2": 9}),
    "max-pool": (6, 128, {"pool_mode": "max"}),
    "other-pools": (6, 160, {"pool1_kernel_size": 3, "pool2_kernel_size": 5}),
    "gelu": (6, 128, {"activation": torch.nn.GELU}),
    "cumulative": (6, 128, {"batch_norm_momentum": None}),
    "newest-batch-only": (6, 128, {"batch_norm_momentum": 1.0}),
    "conv-head": (6, 128, {"final_layer_with_constraint": False}),
    "tight-norms": (6, 128, {"conv_spatial_max_norm": 0.3, "norm_rate": 0.05}),
    "loose-norms": (6, 128, {"conv_spatial_max_norm": 30, "norm_rate": 30}),
    "no-dropout": (6, 128, {"drop_prob": 0.0}),
}


def pair(n_chans, n_times, dtype=torch.float32, seed=0, **options):
    """Stock and fast model with the same weights; no batch norm value is at its neutral start."""
    torch.manual_seed(seed)
    options = {"final_layer_with_constraint": True, **options}
    stock = EEGNet(n_chans=n_chans, n_outputs=3, n_times=n_times, **options)
    with torch.no_grad():
        for name, value in [*stock.named_parameters(), *stock.named_buffers()]:
            if value.dtype.is_floating_point and "norm" in name:
                value.uniform_(0.5, 1.5)
    fast = FastEEGNet(n_chans=n_chans, n_outputs=3, n_times=n_times, **options)
    fast.load_state_dict(stock.state_dict())
    return stock.to(dtype), fast.to(dtype)


def batch(n_chans, n_times, dtype=torch.float32, n_trials=6, seed=1):
    """Correlated signals with an offset: white noise would hide a wrong lag."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n_trials, n_chans, n_times + 4, generator=generator, dtype=torch.float64)
    x = noise.unfold(-1, 5, 1).sum(-1) / 2 + 0.3
    return x.to(dtype), torch.arange(n_trials) % 3


def step(model, x, y, **kwargs):
    torch.manual_seed(5)
    model.zero_grad()
    out = model(x, **kwargs)
    F.cross_entropy(out, y).backward()
    return {"output": out, **{name: value.grad for name, value in model.named_parameters()}}


def assert_same(actual, expected, tolerance):
    """Each tensor of two dictionaries agrees, in absolute terms (relative ones above 1)."""
    assert actual.keys() == expected.keys()
    for name in actual:
        difference = (actual[name].double() - expected[name].double()).abs().max().item()
        assert difference <= tolerance * max(1.0, expected[name].abs().max().item()), (name, difference)
