"""EEGNet with its first block reordered: equal outputs and equal training, several times faster."""

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

# Layers whose forward is not called, because their operations run in another order.
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
    r"""Braindecode's EEGNet with reordered operations: equal outputs, gradients and buffers at lower cost.

    Stock EEGNet filters every channel in time and then computes ``F1 · D`` mixtures of channels. These operations
    are linear for given batch statistics, so channels are mixed first and filtered afterwards:

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
        Activation function.
    final_layer_with_constraint : bool
        Flatten and max-norm linear layer, the paper's classifier. Stock EEGNet's default, a convolution, is
        deprecated there.
    chs_info, input_window_seconds, sfreq : optional
        Alternative arguments for the size of the signal, as in every Braindecode model.
    **options
        All other options of :class:`braindecode.models.EEGNet`: ``F1``, ``D``, ``F2``, ``kernel_length``,
        ``depthwise_kernel_length``, ``pool1_kernel_size``, ``pool2_kernel_size``, ``pool_mode``,
        ``drop_prob``, ``batch_norm_momentum`` and so on.

    Notes
    -----
    If one of the reordered layers has a hook or was changed (as ``to_dense_prediction_model`` does), the stock
    order runs instead, so that the hook is called. Second derivatives in the parameters are available only under
    ``torch.func`` or if ``x`` requires a gradient.

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
        """Return the moments of each trial that ``forward`` would otherwise compute in every training step.

        Parameters
        ----------
        x : Tensor of shape (n_trials, n_chans, n_times)
            Trials as the model receives them, normalised and not padded.

        Returns
        -------
        moments : Tensor of shape (n_trials, kernel_length, 1 + kernel_length)
            Moments; pass ``moments[idx]`` to the model together with ``x[idx]``.
        """
        return lag_moments(x, self.kernel_length)

    def forward(self, x, moments=None, masks=()):
        """Return class scores.

        Parameters
        ----------
        x : Tensor of shape (n_trials, n_chans, n_times)
            Batch.
        moments : Tensor of shape (n_trials, kernel_length, 1 + kernel_length) or None
            :meth:`lag_moments` of the same trials. They only change the duration of a training step;
            evaluation does not need them, and they are ignored if ``x`` requires a gradient.
        masks : tuple of Tensor
            Masks of the two dropout layers, which otherwise draw them; see :meth:`takes_masks`.

        Returns
        -------
        scores : Tensor of shape (n_trials, n_outputs)
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
        # Contiguous, as hooks on the final layer expect it.
        return self.final_layer(_drop(self.drop_2, h.contiguous(), second))

    def takes_masks(self):
        """Return True if ``forward`` uses the argument `masks`.

        Returns
        -------
        takes : bool
            False if a layer was changed or has a hook, so that the stock order or the dropout layers run.
        """
        return self._can_reorder() and not (_has_hooks(self.drop_1) or _has_hooks(self.drop_2))

    def _can_reorder(self):
        """Return True if the layers are those of a complete EEGNet without hooks."""
        if "final_layer" not in self._modules:  # Braindecode's constructor runs the incomplete network.
            return False
        layers = [self._modules[name] for name in _REORDERED]
        if any(_has_hooks(layer) for layer in layers):
            return False
        convolutions = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
        return len(convolutions) == 4 and all(c.stride == c.dilation == (1, 1) for c in convolutions)

    def _first_block(self, x, moments):
        """Return the output (n_trials, F1 · D, 1, n_out) of both filters and their batch norms."""
        mixing = self.conv_spatial.weight.flatten(1)
        norm, padding = self.bnorm_1, self.kernel_length // 2
        cancels = norm.training and norm.momentum is not None
        filters, shift = self._temporal_filters(x, moments, differentiable=x.requires_grad or not cancels)
        if not cancels:
            return norm(mix_and_filter(x, mixing, filters, self._offset(shift, mixing), padding))
        # Batch statistics remove any constant, so the offset only enters the running mean. Its gradient is zero;
        # stock EEGNet has rounding errors there, which Adam amplifies to full steps.
        running, h = norm.running_mean.clone(), mix_and_filter(x, mixing, filters, None, padding)
        h = F.batch_norm(h, running, norm.running_var, norm.weight, norm.bias, True, norm.momentum, norm.eps)
        with torch.no_grad():  # The buffer changes after batch_norm, whose backward pass keeps its argument.
            norm.num_batches_tracked.add_(1)
            norm.running_mean.copy_(running + norm.momentum * self._offset(shift, mixing))
        return h

    def _offset(self, shift, mixing):
        """Return the constant (F1 · D,) that the batch norm of a filter adds to each of its mixtures."""
        return (shift.unsqueeze(1) * mixing.sum(1).view(self.F1, self.D)).flatten().to(mixing.dtype)

    def _temporal_filters(self, x, moments, differentiable):
        """Return the temporal filters (F1, K), scaled by their batch norm, and its shift (F1,)."""
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
            if norm.affine:  # The zero gives the bias a gradient: without one, weight decay skips it.
                scale = scale * norm.weight + 0.0 * norm.bias
            filters = scale.unsqueeze(1) * weight
        return filters, norm.bias - scale * mean if norm.affine else -scale * mean

    def _check_moments(self, x, moments):
        """Raise for moments of another shape than that of the trials."""
        expected = (x.shape[0], self.kernel_length, 1 + self.kernel_length)
        if moments is not None and moments.shape != expected:
            raise ValueError(
                f"moments has shape {tuple(moments.shape)}, expected {expected}: "
                "pass model.lag_moments(X)[idx] together with X[idx]."
            )

    def _separable_block(self, h):
        """Return the output of the separable convolution, as one dense one with ``W[o, i, k] = p[o, i] d[i, k]``."""
        weight = self.conv_separable_point.weight * self.conv_separable_depth.weight.transpose(0, 1)
        padding = self.conv_separable_depth.padding
        if under_vmap():  # There F.conv2d becomes a convolution with one group per replica.
            return toeplitz_convolve(h.squeeze(2), weight.squeeze(2), padding[1]).unsqueeze(2)
        if prefers_channels_last(h):
            return convolve_channels_last(h, weight, padding[1])
        return F.conv2d(h, weight, padding=padding)


class MaxNorm(nn.Module):
    """Parametrisation equal to ``torch.renorm`` along the first axis, with a cheaper gradient and ``vmap``."""

    def __init__(self, max_norm):
        super().__init__()
        self.max_norm = max_norm

    def forward(self, weight):
        """Return the weight with rows of norm at most `max_norm`."""
        if not is_eager():
            return weight * _shrinkage(_row_norms(weight), self.max_norm)[0]
        norm = _row_norms(weight.detach())
        # Reading a value waits on other devices; a fake tensor, which has no values, is of another type.
        can_read = weight.device.type == "cpu" and type(norm) is torch.Tensor
        if can_read and (not norm.numel() or norm.max().item() <= self.max_norm):
            return weight.clone()
        return _Shrink.apply(weight, norm, self.max_norm)


def _row_norms(weight):
    """Return the norm of every row, shape (n_rows, 1, ...)."""
    return torch.linalg.vector_norm(weight, dim=tuple(range(1, weight.ndim)), keepdim=True)


def _shrinkage(norm, max_norm):
    """Return factors of the rows, at most one, and the slopes: the gradient of a factor is minus slope times row."""
    long, safe = norm > max_norm, norm.clamp_min(max_norm)
    divisor = safe + 1e-7
    factor = max_norm / divisor
    return torch.where(long, factor, 1.0), torch.where(long, factor / (divisor * safe), 0.0)


class _Shrink(torch.autograd.Function):
    """``torch.renorm`` along the first axis, with a gradient of a few operations."""

    @staticmethod
    def forward(ctx, weight, norm, max_norm):
        """Return the renormalised weight."""
        ctx.save_for_backward(weight, norm)
        ctx.max_norm = max_norm
        return torch.renorm(weight, 2, 0, max_norm)

    @staticmethod
    def backward(ctx, grad):
        """Return the gradient in the weight."""
        weight, norm = ctx.saved_tensors
        if torch.is_grad_enabled():  # Second derivatives go through the norm.
            norm = _row_norms(weight)
        factor, slope = _shrinkage(norm, ctx.max_norm)
        along = (grad * weight).sum(tuple(range(1, grad.ndim)), keepdim=True)
        return factor * grad - slope * along * weight, None, None


def is_plain(layer, layer_type):
    """Return True if a layer has exactly this type, the original forward and no hooks."""
    return type(layer) is layer_type and "forward" not in vars(layer) and not _has_hooks(layer)


def _has_hooks(layer):
    """Return True if a layer has any forward or backward hook."""
    return bool(
        layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks
    )


def _activate(layer, h):
    """Return the output of an activation layer, computed in place for a plain ELU."""
    # The backward pass of batch norm needs its input, not its output. That of ELU in place needs the output, which
    # saves a second exponential.
    if is_plain(layer, nn.ELU):
        return F.elu(h, layer.alpha, inplace=True)
    return layer(h)


def _pool(layer, h):
    """Return the output of a pooling layer; under ``vmap`` by means, whose backward pass is cheaper on a GPU."""
    plain = type(layer) is nn.AvgPool2d and layer.kernel_size == layer.stride and layer.padding in (0, (0, 0))
    size = layer.kernel_size
    if not (plain and under_vmap() and isinstance(size, tuple) and size[0] == 1 and not layer.ceil_mode):
        return layer(h)
    return h[..., : h.shape[-1] // size[1] * size[1]].unflatten(-1, (-1, size[1])).mean(-1)


def _drop(layer, h, mask=None):
    """Return the output of a dropout layer with the mask of stock EEGNet, for any memory format of `h`."""
    if mask is not None:
        return h.contiguous() * mask
    plain = type(h) is torch.Tensor and not has_torch_function((h,))  # no mode or subclass intercepts dropout
    fast = is_plain(layer, nn.Dropout) and prefers_channels_last(h) and plain
    if fast and layer.training and 0 < layer.p < 1:
        return h * dropout_mask(h.shape, layer.p, h.dtype, memory_format=torch.channels_last)
    return layer(h.contiguous())  # A mask is drawn in memory order.


def _update_running(norm, mean, unbiased_var):
    """Update the running statistics as ``nn.BatchNorm2d`` does; without momentum, a plain average."""
    norm.num_batches_tracked.add_(1)
    rate = norm.momentum
    if rate is None:
        rate = norm.num_batches_tracked.to(norm.running_mean.dtype).reciprocal()
    norm.running_mean.mul_(1 - rate).add_(rate * mean)
    norm.running_var.mul_(1 - rate).add_(rate * unbiased_var)
