"""Temporal filters scaled by the batch norm that follows, and tests for eager execution."""

import torch


def normalised_filters(weight, norm, mean, covariance, differentiable):
    """Return scaled filters ``a_f w_f`` (F1, K), scales ``a_f``, means and variances (F1,) of the filter outputs.

    ``a_f = γ_f / √(w_fᵀ Σ w_f + ε)``: batch norm in training mode, without its mean.
    """
    bias = norm.bias
    gamma = weight.new_ones(len(weight)) if norm.weight is None else norm.weight
    if is_eager() and not differentiable:
        return _NormalisedFilters.apply(weight, gamma, bias, mean, covariance, norm.eps)
    wide = weight.to(mean.dtype)
    filter_var = ((wide @ covariance) * wide).sum(-1)
    scale = (filter_var + norm.eps).rsqrt().to(weight.dtype) * gamma
    if bias is not None:
        scale = scale + 0.0 * bias  # Weight decay skips a parameter without a gradient.
    return scale.unsqueeze(1) * weight, scale, (wide @ mean).to(weight.dtype), filter_var.to(weight.dtype)


class _NormalisedFilters(torch.autograd.Function):
    """:func:`normalised_filters` in few operations, since it runs in every training step."""

    @staticmethod
    def forward(ctx, weight, gamma, bias, mean, covariance, eps):
        """Return the outputs of :func:`normalised_filters`."""
        wide = weight.to(mean.dtype)
        rows = wide @ covariance
        var = (rows * wide).sum(-1)
        inverse = (var + eps).rsqrt()
        scale = inverse * gamma
        ctx.save_for_backward(wide, rows, inverse, scale, bias)
        outputs = ((scale.unsqueeze(1) * wide).to(weight.dtype), scale, wide @ mean, var)
        ctx.mark_non_differentiable(*outputs[1:])
        ctx.set_materialize_grads(False)  # else autograd makes zeros for outputs without gradient
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, *_):
        """Return the gradients in weight and ``γ``; that in the bias is zero."""
        if grad is None:
            return (None,) * 6
        wide, rows, inverse, scale, bias = ctx.saved_tensors
        along = (grad * wide).sum(-1) * inverse
        # ∂a/∂w = −a Σw / (var + ε)
        grad_weight = scale.unsqueeze(1) * grad - (along * inverse * scale).unsqueeze(1) * rows
        grad_bias = None if bias is None else torch.zeros_like(bias)
        return grad_weight.to(grad.dtype), along.to(grad.dtype), grad_bias, None, None, None


def is_eager():
    """Return True outside ``torch.func`` transforms and compiled graphs.

    There, hand-written gradients are faster; elsewhere they would prevent batching and fusing.
    """
    return not (torch.compiler.is_compiling() or under_vmap())


def under_vmap():
    """Return True if a transform of ``torch.func`` is active, compiled or not."""
    return torch._C._are_functorch_transforms_active()
