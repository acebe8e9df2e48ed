"""Gradients of any penalty, and of its critics, by autograd."""

import torch

__all__ = ["critic_gradient_by_autograd", "gradient_by_autograd"]


def gradient_by_autograd(penalty, z, *labels, noise=None):
    """Return a penalty and its gradient in z.

    Parameters
    ----------
    penalty : nn.Module
        Any.
    z : Tensor of shape (n, n_features)
        Latent code.
    *labels : Tensor or Batch
        What the penalty takes beside z.
    noise : Tensor, optional
        Random numbers for the penalty.

    Returns
    -------
    value : Tensor of shape ()
        The penalty, without graph.
    gradient : Tensor of shape (n, n_features)
        In z.
    """
    leaf = z.detach().requires_grad_()
    with torch.enable_grad():
        value = penalty(leaf, *labels, noise=noise)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def critic_gradient_by_autograd(penalty, parameters, z, *labels):
    """Return the loss of a penalty's critics and its gradients.

    Parameters
    ----------
    penalty : nn.Module
        Any.
    parameters : list of Parameter
        Of the critics.
    z : Tensor of shape (n, n_features)
        Latent code, detached from the encoder.
    *labels : Tensor or Batch
        What the penalty takes beside z.

    Returns
    -------
    loss : Tensor of shape ()
        Without graph.
    gradients : list of Tensor
        In each parameter; zeros where the loss does not depend on it.
    """
    with torch.enable_grad():
        loss = penalty.critic_loss(z, *labels)
    if not loss.requires_grad or not parameters:
        return loss.detach(), [torch.zeros_like(p) for p in parameters]
    options = {"allow_unused": True, "materialize_grads": True}
    return loss.detach(), list(torch.autograd.grad(loss, parameters, **options))
