"""Convolutions of a whole stack as one matrix product per member.

``vmap`` turns the convolutions of many members into one of as many groups as there are members, for which GPUs have
slow kernels. A product of each member's filters with its windows is what they are fast at. Filters that see very many
channels are the exception: they give such a kernel enough to do, and their windows would fill the memory.
"""

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

__all__ = ["ConvolveByProducts", "convolve"]

#: Filters of at least so many channels are left to torch. In ``benchmarks/networks.py`` EEGSimpleConv, whose filters
#: see 128 and more, is faster that way; all other networks, whose filters see 100 at most, are slower.
_WIDE = 128


class ConvolveByProducts(TorchFunctionMode):
    """While it is active, convolutions in one and two dimensions are those of this module."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Call a function of torch, unless it convolves."""
        if func in (F.conv1d, F.conv2d):
            return convolve(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def convolve(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Compute what ``torch.nn.functional.conv1d`` or ``conv2d`` computes, for one member under ``vmap``."""
    x, in_time = input, weight.ndim == 3
    if weight.shape[1] >= _WIDE:
        torch_convolves = F.conv1d if in_time else F.conv2d
        return torch_convolves(x, weight, bias, stride, padding, dilation, groups)
    stride, dilation = _pair(stride, in_time, 1), _pair(dilation, in_time, 1)
    if in_time:
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
    x = _pad(x, weight, padding, dilation, in_time)
    y = _whole_axis(x, weight, stride, dilation, groups)
    y = y if bias is None else y + bias.view(-1, 1, 1)
    return y.squeeze(2) if in_time else y


def _pair(given, in_time, first):
    given = (given,) if isinstance(given, int) else tuple(given)
    given = given * 2 if len(given) == 1 and not in_time else given
    return (first, *given) if in_time else given


def _pad(x, weight, padding, dilation, in_time):
    if padding == "valid":
        return x
    if padding == "same":
        missing = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        sides = [(total // 2, total - total // 2) for total in missing]
    else:
        sides = [(size, size) for size in _pair(padding, in_time, 0)]
    return F.pad(x, (*sides[1], *sides[0])) if any(sum(side) for side in sides) else x


def _whole_axis(x, weight, stride, dilation, groups):
    """Convolve; an axis that the filters span has one window only, so that it is one more axis of channels."""
    if weight.shape[3] == x.shape[3] > 1 and weight.shape[2] < x.shape[2]:
        y = _whole_axis(x.mT, weight.mT, stride[::-1], dilation[::-1], groups)
        return y.mT
    if weight.shape[2] == x.shape[2]:
        x, weight = x.flatten(1, 2).unsqueeze(2), weight.flatten(1, 2).unsqueeze(2)
    return _Convolution.apply(x, weight, stride, dilation, groups)


class _Convolution(torch.autograd.Function):
    """torch's convolution, but for ``vmap``, which gets :class:`_Product`."""

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
    """Convolutions of stacks, shapes (n_members, n, n_in, height, width) and (n_members, n_out, n_in / groups, ...)."""

    @staticmethod
    def forward(ctx, x, weight, stride, dilation, groups):
        ctx.save_for_backward(x, weight)
        ctx.options = stride, dilation, groups
        windows, size = _windows(x, weight.shape[3:], *ctx.options)
        y = weight.reshape(len(weight), groups, weight.shape[1] // groups, -1) @ windows
        y = y.unflatten(-1, (x.shape[1], *size))  # members, groups, outputs of the group, n, height, width
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
            parts = (filters.mT @ grad).unflatten(2, (inputs, *kernel)).unflatten(-1, (x.shape[1], *size))
            grad_x = _add_up(parts, x, stride, dilation)
        return grad_x, grad_weight, None, None, None


def _windows(x, kernel, stride, dilation, groups):
    """All that filters see, shape (n_members, groups, n_in / groups · taps, n · places), and the places per axis."""
    n_members, n, n_in, *size = x.shape
    size = [(s - d * (k - 1) - 1) // step + 1 for s, k, step, d in zip(size, kernel, stride, dilation)]
    member, trial, channel, *axes = x.stride()
    steps = [axis * d for axis, d in zip(axes, dilation)]
    places = [axis * step for axis, step in zip(axes, stride)]
    shape = n_members, groups, n_in // groups, *kernel, n, *size
    strides = member, channel * (n_in // groups), channel, *steps, trial, *places
    return x.as_strided(shape, strides).reshape(n_members, groups, -1, n * size[0] * size[1]), size


def _add_up(parts, x, stride, dilation):
    """Gradient of the signals from that of the windows, tap by tap."""
    height, width = parts.shape[-2:]
    grad = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    grouped = grad.unflatten(2, (parts.shape[1], -1))
    for i in range(parts.shape[3]):
        rows = slice(i * dilation[0], i * dilation[0] + (height - 1) * stride[0] + 1, stride[0])
        for j in range(parts.shape[4]):
            columns = slice(j * dilation[1], j * dilation[1] + (width - 1) * stride[1] + 1, stride[1])
            grouped[..., rows, columns] += parts[:, :, :, i, j].permute(0, 3, 1, 2, 4, 5)
    return grad
