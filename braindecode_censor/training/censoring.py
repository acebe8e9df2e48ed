"""One censoring step: the penalty's gradient in the latent code, and a step of the critic."""

import copy
import math

import torch
from torch import nn

from braindecode_censor.penalties.factory import make_penalty

__all__ = ["CensoringStep", "build_penalty", "warm_up"]


def warm_up(weight, epoch, warmup):
    """Return the weight of the penalty in an epoch, which rises linearly from zero.

    Parameters
    ----------
    weight : float
        The full weight.
    epoch : int
        Epochs behind: 0 in the first.
    warmup : int
        Epochs until the weight is full; 0 begins with the full weight.

    Returns
    -------
    weight : float
        Of this epoch.

    Examples
    --------
    >>> [warm_up(8.0, epoch, 4) for epoch in range(6)]
    [0.0, 2.0, 4.0, 6.0, 8.0, 8.0]
    """
    return weight * min(1.0, epoch / warmup if warmup else 1.0)


def build_penalty(method, z, random_state, **options):
    """Make a penalty without touching torch's global generator.

    Parameters
    ----------
    method : str or nn.Module
        Censoring method, or a finished penalty, which is copied.
    z : Tensor
        A latent code, for its device and type.
    random_state : int
        Seed of the critic's weights.
    **options
        What :func:`~braindecode_censor.make_penalty` takes; unused for a finished penalty.

    Returns
    -------
    penalty : nn.Module
        In training mode, on the device of `z` and of its type.
    """
    if isinstance(method, nn.Module):
        return copy.deepcopy(method).to(z).train()
    with torch.random.fork_rng(devices=[z.device] if z.is_cuda else []):
        torch.manual_seed(random_state)
        return make_penalty(method, **options).to(z).train()


class CensoringStep:
    """Return the gradient of the penalty in z, and train the critic on z.

    With one critic step per batch, the penalty comes from a critic that has not learnt from this batch yet, as in the
    paper's listings for BEGAN and as with a gradient reversal layer, so that a bound that it gives on the mutual
    information is not biased by that.

    Parameters
    ----------
    penalty : nn.Module
        Made by :func:`~braindecode_censor.make_penalty`.
    critic_lr : float
        Learning rate of the critic's Adam.
    critic_steps : int
        Critic steps per call; the penalty is that before the last one.
    random_state : int
        Seed of random pairs.

    Attributes
    ----------
    optimizer : torch.optim.Adam or None
        The critic's; None without a critic.
    noise : Tensor or None
        The random draws of the last call.
    """

    def __init__(self, penalty, critic_lr=1e-3, critic_steps=1, random_state=0):
        self.penalty = penalty
        self.critic_steps = critic_steps
        self.generator = torch.Generator().manual_seed(random_state)
        self.noise = None
        parameters = penalty.critic_parameters()
        self.optimizer = torch.optim.Adam(parameters, lr=critic_lr, fused=True) if parameters else None

    def __call__(self, z, s, y, needs_gradient=True):
        """Take the step.

        Parameters
        ----------
        z : Tensor of shape (n, n_features)
            Latent code, detached from the encoder.
        s, y : Tensor of shape (n,)
            Subject labels and task labels.
        needs_gradient : bool
            Whether the gradient is wanted, or only the numbers.

        Returns
        -------
        gradient : Tensor of shape (n, n_features) or None
            Of the penalty, in z.
        numbers : tuple of two Tensor of shape ()
            The penalty and the critic's loss, which is NaN without a critic.
        """
        self.noise = self.penalty.draw_noise(self.generator)
        for _ in range(self.critic_steps - 1):
            self._train_critic(z, s, y)
        value, gradient = self._penalise(z, s, y, needs_gradient)
        critic_loss = self._train_critic(z, s, y)
        return gradient, (value, critic_loss)

    def _penalise(self, z, s, y, needs_gradient):
        """The penalty, and its gradient in z."""
        with torch.set_grad_enabled(needs_gradient):
            leaf = z.detach().requires_grad_(needs_gradient)
            value = self.penalty(leaf, s, y, noise=self.noise)
        gradient = torch.autograd.grad(value, leaf)[0] if needs_gradient else None
        return value.detach(), gradient

    def _train_critic(self, z, s, y):
        """Take a step of the critic; return its loss before it."""
        if self.optimizer is None or len(z) < 2:
            return z.new_full((), math.nan)
        self.optimizer.zero_grad()
        with torch.enable_grad():
            loss = self.penalty.critic_loss(z, s, y)
            loss.backward()
        self.optimizer.step()
        return loss.detach()
