"""EEGNet with its first block reordered: the same function and the same training, several times faster."""

import torch
from braindecode.models import EEGNet
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.overrides import has_torch_function

from braindecode_censor.encoders.dropout import dropout_mask
from braindecode_censor.encoders.filters import (
    convolve_channels_last,
    mix_and_filter,
    prefers_channels_last,
    toeplitz_convolve,
)
from braindecode_censor.encoders.lagmoments import batch_covariance, batch_moments, lag_moments
from braindecode_censor.encoders.norm import is_eager, normalised_filters, under_vmap

# layers whose forward is never called, because their work is done in another order
_REORDERED = (
    "ensuredims",
    "dimshuffle",
    "conv_temporal",
    "bnorm_temporal",
    "conv_spatial",
    "bnorm_1",
    "conv_separable_depth",
    "conv_separable_point",
)


class FastEEGNet(EEGNet):
    r"""Braindecode's EEGNet, reordered: equal outputs, gradients and buffers, at a fraction of the cost.

    Stock EEGNet filters every channel in time and then keeps ``F1 · D`` mixtures of them. All of this is
    linear once the batch statistics are known, so here channels are mixed first and filtered after:

    .. math::
        o_{nfdt} = a_f \sum_k w_{fk} \sum_c u_{fdc}\, \tilde x_{nc,t+k} + b_f \sum_c u_{fdc},
        \quad a_f = \gamma_f / \sqrt{\mathrm{var}_f + \epsilon}, \quad b_f = \beta_f - a_f \mu_f

    and the batch statistics :math:`\mu_f, \mathrm{var}_f` come from the lag moments of the data (see
    ``braindecode_censor.encoders.lagmoments``). The two separable convolutions run as one.

    Layers, parameters, parametrisations and buffers are those of
    :class:`braindecode.models.EEGNet`, so state dicts load either way and hooks on ``final_layer`` see the
    same tensors. Dropout draws the same masks from the same seed.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int or None
        Channels, classes and samples of a trial, as in every Braindecode model.
    activation : type of nn.Module
        Non-linearity.
    final_layer_with_constraint : bool
        Flatten and max-norm linear layer, the paper's classifier. Stock EEGNet's default, a convolution, is
        deprecated there.
    chs_info, input_window_seconds, sfreq : optional
        Other ways to give the signal's size, as in every Braindecode model.
    **options
        All other options of :class:`braindecode.models.EEGNet`: ``F1``, ``D``, ``F2``, ``kernel_length``,
        ``depthwise_kernel_length``, ``pool1_kernel_size``, ``pool2_kernel_size``, ``pool_mode``,
        ``drop_prob``, ``batch_norm_momentum`` and so on.

    Notes
    -----
    When a hook sits on one of the reordered layers, or one of them was changed (as
    ``to_dense_prediction_model`` does), the stock order runs instead, so that the hook is called. Second
    derivatives in the parameters are available under ``torch.func`` only, or when ``x`` wants a gradient.

    Examples
    --------
    >>> import torch
    >>> model = FastEEGNet(n_chans=16, n_outputs=2, n_times=128)
    >>> x = torch.randn(4, 16, 128)
    >>> model(x, moments=model.lag_moments(x)).shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        n_chans=None,
        n_outputs=None,
        n_times=None,
        *,
        activation=nn.ELU,
        final_layer_with_constraint=True,
        chs_info=None,
        input_window_seconds=None,
        sfreq=None,
        **options,
    ):
        super().__init__(
            n_chans=n_chans,
            n_outputs=n_outputs,
            n_times=n_times,
            activation=activation,
            final_layer_with_constraint=final_layer_with_constraint,
            chs_info=chs_info,
            input_window_seconds=input_window_seconds,
            sfreq=sfreq,
            **options,
        )
        for layer in (self.conv_spatial, *self.final_layer):
            if parametrize.is_parametrized(layer, "weight"):
                layer.parametrizations.weight[0] = MaxNorm(layer.max_norm)

    def lag_moments(self, x):
        """Moments of each trial that ``forward`` would otherwise compute in every training step.

        Parameters
        ----------
        x : Tensor of shape (n_trials, n_chans, n_times)
            Trials exactly as the model will see them, normalised and not yet padded.

        Returns
        -------
        Tensor of shape (n_trials, kernel_length, 1 + kernel_length)
            Hand ``moments[idx]`` to the model beside ``x[idx]``.
        """
        return lag_moments(x, self.kernel_length)

    def forward(self, x, moments=None, masks=()):
        """Class scores.

        Parameters
        ----------
        x : Tensor of shape (n_trials, n_chans, n_times)
            Batch.
        moments : Tensor of shape (n_trials, kernel_length, 1 + kernel_length) or None
            :meth:`lag_moments` of the same trials. They change nothing but the time a training step takes;
            evaluation does not need them, and they are ignored when ``x`` wants a gradient.
        masks : tuple of Tensor
            Masks to multiply by in the place of the two dropout layers, which otherwise draw their own; see
            :meth:`takes_masks` for when they are taken.

        Returns
        -------
        Tensor of shape (n_trials, n_outputs)
            Scores before the softmax.
        """
        if x.ndim == 4 and x.shape[-1] == 1:
            x = x.squeeze(-1)
        if x.ndim != 3 or not self._can_reorder():
            return super().forward(x)
        first, second = masks or (None, None)
        h = _pool(self.pool_1, _activate(self.elu_1, self._first_block(x, moments)))
        h = self._separable_block(_drop(self.drop_1, h, first))
        h = _pool(self.pool_2, self.elu_2(self.bnorm_2(h)))
        return self.final_layer(
            _drop(self.drop_2, h.contiguous(), second)
        )  # as hooks on the final layer know it

    def takes_masks(self):
        """Tell whether ``forward`` takes dropout masks.

        Returns
        -------
        takes : bool
            False if somebody has changed or hooked a layer, so that the stock order runs or dropout is watched.
        """
        return self._can_reorder() and not (_has_hooks(self.drop_1) or _has_hooks(self.drop_2))

    def _can_reorder(self):
        """Whether the layers are still those of a whole, unhooked EEGNet."""
        if "final_layer" not in self._modules:  # Braindecode's constructor runs what is built so far
            return False
        layers = [self._modules[name] for name in _REORDERED]
        if any(_has_hooks(layer) for layer in layers):
            return False
        convolutions = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
        return len(convolutions) == 4 and all(c.stride == c.dilation == (1, 1) for c in convolutions)

    def _first_block(self, x, moments):
        """Temporal filters, batch norm, spatial filters, batch norm: shape (n_trials, F1 · D, 1, n_out)."""
        mixing = self.conv_spatial.weight.flatten(1)
        norm, padding = self.bnorm_1, self.kernel_length // 2
        cancels = norm.training and norm.momentum is not None
        filters, shift = self._temporal_filters(x, moments, differentiable=x.requires_grad or not cancels)
        if not cancels:
            return norm(mix_and_filter(x, mixing, filters, self._offset(shift, mixing), padding))
        # Batch statistics take any constant out again, so only the running mean hears of the offset. Its
        # gradient is zero; stock EEGNet has rounding errors there, which Adam blows up to full steps.
        running, h = norm.running_mean.clone(), mix_and_filter(x, mixing, filters, None, padding)
        h = F.batch_norm(h, running, norm.running_var, norm.weight, norm.bias, True, norm.momentum, norm.eps)
        with torch.no_grad():  # into the buffer only now: the backward pass keeps what batch_norm was given
            norm.num_batches_tracked.add_(1)
            norm.running_mean.copy_(running + norm.momentum * self._offset(shift, mixing))
        return h

    def _offset(self, shift, mixing):
        """Constant that a filter's batch norm adds to each of its mixtures, shape (F1 · D,)."""
        return (shift.unsqueeze(1) * mixing.sum(1).view(self.F1, self.D)).flatten().to(mixing.dtype)

    def _temporal_filters(self, x, moments, differentiable):
        """Temporal filters that carry the scale of their batch norm, and its shift: (F1, K), (F1,)."""
        norm, weight = self.bnorm_temporal, self.conv_temporal.weight.flatten(1)
        self._check_moments(x, moments)
        if norm.training:
            count = x.shape[0] * x.shape[1] * (x.shape[2] + 1 - self.kernel_length % 2)
            if moments is None or x.requires_grad:
                moments = batch_moments(x, self.kernel_length, self.kernel_length // 2)
            mean, covariance = batch_covariance(moments, count)
            filters, scale, mean, var = normalised_filters(weight, norm, mean, covariance, differentiable)
            with torch.no_grad():
                _update_running(norm, mean, var * (count / (count - 1)))
        else:
            mean = norm.running_mean
            scale = (norm.running_var + norm.eps).rsqrt()
            if norm.affine:  # the zero: weight decay skips a parameter that has no gradient at all
                scale = scale * norm.weight + 0.0 * norm.bias
            filters = scale.unsqueeze(1) * weight
        return filters, norm.bias - scale * mean if norm.affine else -scale * mean

    def _check_moments(self, x, moments):
        expected = (x.shape[0], self.kernel_length, 1 + self.kernel_length)
        if moments is not None and moments.shape != expected:
            raise ValueError(
                f"moments must have shape {expected}, got {tuple(moments.shape)}: "
                "pass model.lag_moments(X)[idx] beside X[idx]."
            )

    def _separable_block(self, h):
        """Depthwise and pointwise convolution as one dense convolution, ``W[o, i, k] = p[o, i] d[i, k]``."""
        weight = self.conv_separable_point.weight * self.conv_separable_depth.weight.transpose(0, 1)
        padding = self.conv_separable_depth.padding
        if under_vmap():  # where F.conv2d becomes a convolution of as many groups as there are members
            return toeplitz_convolve(h.squeeze(2), weight.squeeze(2), padding[1]).unsqueeze(2)
        if prefers_channels_last(h):
            return convolve_channels_last(h, weight, padding[1])
        return F.conv2d(h, weight, padding=padding)


class MaxNorm(nn.Module):
    """What ``torch.renorm`` does along the first axis, with a cheaper gradient and for ``vmap`` too."""

    def __init__(self, max_norm):
        super().__init__()
        self.max_norm = max_norm

    def forward(self, weight):
        """Shrink the rows that are too long."""
        if not is_eager():
            return weight * _shrinkage(_row_norms(weight), self.max_norm)[0]
        norm = _row_norms(weight.detach())
        # Looking waits on other devices; a fake tensor, which has no values to look at, is of another type.
        can_look = weight.device.type == "cpu" and type(norm) is torch.Tensor
        if can_look and (not norm.numel() or norm.max().item() <= self.max_norm):
            return weight.clone()
        return _Shrink.apply(weight, norm, self.max_norm)


def _row_norms(weight):
    """Norm of every row, shape (n_rows, 1, ...)."""
    return torch.linalg.vector_norm(weight, dim=tuple(range(1, weight.ndim)), keepdim=True)


def _shrinkage(norm, max_norm):
    """Factor of every row, at most one, and minus its derivative in the row over the row."""
    long, safe = norm > max_norm, norm.clamp_min(max_norm)
    divisor = safe + 1e-7
    factor = max_norm / divisor
    return torch.where(long, factor, 1.0), torch.where(long, factor / (divisor * safe), 0.0)


class _Shrink(torch.autograd.Function):
    """``torch.renorm`` along the first axis, with a gradient of a few operations."""

    @staticmethod
    def forward(ctx, weight, norm, max_norm):
        """Shrink the rows that are too long."""
        ctx.save_for_backward(weight, norm)
        ctx.max_norm = max_norm
        return torch.renorm(weight, 2, 0, max_norm)

    @staticmethod
    def backward(ctx, grad):
        """Gradient in the weight."""
        weight, norm = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives, which go through the norm
            norm = _row_norms(weight)
        factor, slope = _shrinkage(norm, ctx.max_norm)
        along = (grad * weight).sum(tuple(range(1, grad.ndim)), keepdim=True)
        return factor * grad - slope * along * weight, None, None


def _is_plain(layer, kind):
    """Whether a layer is of this very kind, and nobody has changed what it does or waits to hear of it."""
    return type(layer) is kind and "forward" not in vars(layer) and not _has_hooks(layer)


def _has_hooks(layer):
    return bool(
        layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks
    )


def _activate(layer, h):
    """Output of an activation layer, in place of its input where the layer is a plain ELU."""
    # Batch norm keeps its input for the backward pass, not its output. ELU in place keeps its output, from which
    # the gradient needs no second exponential.
    if _is_plain(layer, nn.ELU):
        return F.elu(h, layer.alpha, inplace=True)
    return layer(h)


def _pool(layer, h):
    """Output of a pooling layer; under ``vmap`` plain means, whose backward pass is cheaper on a GPU."""
    plain = type(layer) is nn.AvgPool2d and layer.kernel_size == layer.stride and layer.padding in (0, (0, 0))
    size = layer.kernel_size
    if not (plain and under_vmap() and isinstance(size, tuple) and size[0] == 1 and not layer.ceil_mode):
        return layer(h)
    return h[..., : h.shape[-1] // size[1] * size[1]].unflatten(-1, (-1, size[1])).mean(-1)


def _drop(layer, h, mask=None):
    """Output of a dropout layer, with the mask that it has in stock EEGNet, in whatever order `h` lies in memory."""
    if mask is not None:
        return h.contiguous() * mask
    plain = type(h) is torch.Tensor and not has_torch_function((h,))  # nobody waits to hear of the dropout
    fast = _is_plain(layer, nn.Dropout) and prefers_channels_last(h) and plain
    if fast and layer.training and 0 < layer.p < 1:
        return h * dropout_mask(h.shape, layer.p, h.dtype, memory_format=torch.channels_last)
    return layer(h.contiguous())  # a mask is drawn in memory order


def _update_running(norm, mean, unbiased_var):
    """Update the running statistics as ``nn.BatchNorm2d`` does; without momentum, a plain average."""
    norm.num_batches_tracked.add_(1)
    rate = norm.momentum
    if rate is None:
        rate = norm.num_batches_tracked.to(norm.running_mean.dtype).reciprocal()
    norm.running_mean.mul_(1 - rate).add_(rate * mean)
    norm.running_var.mul_(1 - rate).add_(rate * unbiased_var)
