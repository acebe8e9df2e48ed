"""Censoring step: the gradient of the penalty in the latent code, and a step of the critic."""

import copy
import math

import torch
from torch import nn

__all__ = ["CensoringStep", "build_penalty", "warm_up"]


def warm_up(weight, epoch, warmup):
    """Return the weight of the penalty in an epoch, which rises linearly from zero."""
    return weight * min(1.0, epoch / warmup if warmup else 1.0)


def build_penalty(method, z, random_state, **options):
    """Make a penalty without touching torch's global generator."""
    from braindecode_censor.penalties.factory import make_penalty

    if isinstance(method, nn.Module):
        return copy.deepcopy(method).to(z).train()
    with torch.random.fork_rng(devices=[z.device] if z.is_cuda else []):
        torch.manual_seed(random_state)
        return make_penalty(method, **options).to(z).train()


class CensoringStep:
    """Return the gradient of the penalty in z, and train the critic on z.

    With one critic step per batch, the penalty comes from a critic that was not trained on this batch yet, as in the
    paper's listings for BEGAN and with a gradient reversal layer. So its bound on the mutual information is unbiased.
    """

    def __init__(self, penalty, critic_lr=1e-3, critic_steps=1, random_state=0):
        self.penalty = penalty
        self.critic_steps = critic_steps
        self.generator = torch.Generator().manual_seed(random_state)
        self.noise = None
        parameters = penalty.critic_parameters()
        self.optimizer = torch.optim.Adam(parameters, lr=critic_lr, fused=True) if parameters else None

    def __call__(self, z, s, y, needs_gradient=True):
        """Take the step."""
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
