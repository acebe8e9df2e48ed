"""Convolutions of a whole stack as one matrix product per replica.

``vmap`` turns the convolutions of many replicas into one grouped convolution, for which GPUs have slow kernels. A
product of the filters with their windows is fast. Filters that see very many channels are the exception: their grouped
kernels are fast enough, and their windows would fill the memory.
"""

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

__all__ = ["ConvolveByProducts", "convolve"]

# Filters with at least this many channels are left to torch. EEGSimpleConv, whose filters see 128 and more, is faster
# that way; all other networks of benchmarks/README.md, whose filters see at most 100, are slower.
_WIDE = 128


class ConvolveByProducts(TorchFunctionMode):
    """Replacement of torch's convolutions in one and two dimensions by those of this module."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Call a function of torch, or replace a convolution."""
        if func in (F.conv1d, F.conv2d):
            return convolve(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def convolve(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Compute ``torch.nn.functional.conv1d`` or ``conv2d`` for one replica under ``vmap``."""
    x, in_time = input, weight.ndim == 3
    if weight.shape[1] >= _WIDE:
        torch_convolves = F.conv1d if in_time else F.conv2d
        return torch_convolves(x, weight, bias, stride, padding, dilation, groups)
    stride, dilation = _pair(stride, in_time, 1), _pair(dilation, in_time, 1)
    if in_time:
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
    x = _pad(x, weight, padding, dilation, in_time)
    y = _convolve_axes(x, weight, stride, dilation, groups)
    y = y if bias is None else y + bias.view(-1, 1, 1)
    return y.squeeze(2) if in_time else y


def _pair(sizes, in_time, first):
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    sizes = sizes * 2 if len(sizes) == 1 and not in_time else sizes
    return (first, *sizes) if in_time else sizes


def _pad(x, weight, padding, dilation, in_time):
    if padding == "valid":
        return x
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        sides = [(total // 2, total - total // 2) for total in totals]
    else:
        sides = [(size, size) for size in _pair(padding, in_time, 0)]
    return F.pad(x, (*sides[1], *sides[0])) if any(sum(side) for side in sides) else x


def _convolve_axes(x, weight, stride, dilation, groups):
    """Convolve; an axis that the filters span has one window, so it is treated as channels."""
    if weight.shape[3] == x.shape[3] > 1 and weight.shape[2] < x.shape[2]:
        return _convolve_axes(x.mT, weight.mT, stride[::-1], dilation[::-1], groups).mT
    if weight.shape[2] == x.shape[2]:
        x, weight = x.flatten(1, 2).unsqueeze(2), weight.flatten(1, 2).unsqueeze(2)
    return _Convolution.apply(x, weight, stride, dilation, groups)


class _Convolution(torch.autograd.Function):
    """Convolution by torch, which becomes :class:`_Product` under ``vmap``."""

    @staticmethod
    def forward(x, weight, stride, dilation, groups):
        return F.conv2d(x, weight, None, stride, 0, dilation, groups)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x, weight, stride, dilation, groups):
        x, weight = (
            tensor.expand(info.batch_size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
            for tensor, axis in zip((x, weight), in_dims)
        )
        return _Product.apply(x, weight, stride, dilation, groups), 0


class _Product(torch.autograd.Function):
    """Convolutions of stacks, (n_replicas, n, n_in, height, width) and (n_replicas, n_out, n_in / groups, ...)."""

    @staticmethod
    def forward(ctx, x, weight, stride, dilation, groups):
        ctx.save_for_backward(x, weight)
        ctx.options = stride, dilation, groups
        windows, size = _windows(x, weight.shape[3:], *ctx.options)
        y = weight.reshape(len(weight), groups, weight.shape[1] // groups, -1) @ windows
        y = y.unflatten(-1, (x.shape[1], *size))  # replicas, groups, outputs of the group, n, height, width
        return y.permute(0, 3, 1, 2, 4, 5).flatten(2, 3)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (x, weight), (stride, dilation, groups) = ctx.saved_tensors, ctx.options
        inputs, kernel = weight.shape[2], weight.shape[3:]
        grad = grad.unflatten(2, (groups, -1)).permute(0, 2, 3, 1, 4, 5)
        size, grad = grad.shape[4:], grad.flatten(3)
        grad_x = grad_weight = None
        if ctx.needs_input_grad[1]:
            windows, _ = _windows(x, kernel, *ctx.options)
            grad_weight = (grad @ windows.mT).reshape(weight.shape)
        if ctx.needs_input_grad[0]:
            filters = weight.reshape(len(weight), groups, weight.shape[1] // groups, -1)
            windows = (filters.mT @ grad).unflatten(2, (inputs, *kernel)).unflatten(-1, (x.shape[1], *size))
            grad_x = _sum_windows(windows, x, stride, dilation)
        return grad_x, grad_weight, None, None, None


def _windows(x, kernel, stride, dilation, groups):
    """Return the windows of the filters, (n_replicas, groups, n_in / groups · taps, n · positions), and their grid."""
    n_replicas, n, n_in, *size = x.shape
    size = [(s - d * (k - 1) - 1) // step + 1 for s, k, step, d in zip(size, kernel, stride, dilation)]
    replica, trial, channel, *axes = x.stride()
    taps = [axis * d for axis, d in zip(axes, dilation)]
    positions = [axis * step for axis, step in zip(axes, stride)]
    shape = n_replicas, groups, n_in // groups, *kernel, n, *size
    strides = replica, channel * (n_in // groups), channel, *taps, trial, *positions
    return x.as_strided(shape, strides).reshape(n_replicas, groups, -1, n * size[0] * size[1]), size


def _sum_windows(windows, x, stride, dilation):
    """Return the gradient in the signals from that in the windows, tap by tap."""
    height, width = windows.shape[-2:]
    grad = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    grouped = grad.unflatten(2, (windows.shape[1], -1))
    for i in range(windows.shape[3]):
        rows = slice(i * dilation[0], i * dilation[0] + (height - 1) * stride[0] + 1, stride[0])
        for j in range(windows.shape[4]):
            columns = slice(j * dilation[1], j * dilation[1] + (width - 1) * stride[1] + 1, stride[1])
            grouped[..., rows, columns] += windows[:, :, :, i, j].permute(0, 3, 1, 2, 4, 5)
    return grad
