"""Critic and encoder train apart, and a revealing half is weighed by itself."""

import pytest
import torch
from cases import IDS, METHODS, PENALTIES, make_batch, make_penalty, value_and_gradient

import braindecode_censor as bc


@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_encoder_never_trains_the_critic_nor_the_critic_the_encoder(method, mode):
    z, s, y = make_batch("balanced")
    penalty = make_penalty(method, mode)
    z.requires_grad_()
    penalty(z, s, y).backward()
    assert z.grad.abs().sum() > 0
    assert all(p.grad is None for p in penalty.critic_parameters())
    loss = penalty.critic_loss(z.detach(), s, y)
    loss.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in penalty.critic_parameters())
    assert penalty.has_critic == bool(penalty.critic_parameters())
    assert penalty.has_critic or loss.detach() == 0


@pytest.mark.parametrize("n_trials", [0, 1, 12])
@pytest.mark.parametrize("method", METHODS)
def test_critic_loss_can_always_be_backpropagated(method, n_trials):
    """A loop that trains the critic on every batch runs with each method, without a critic and at any batch size."""
    z, s, y = (tensor[:n_trials] for tensor in make_batch("balanced"))
    criterion = bc.CensoredLoss(torch.nn.CrossEntropyLoss(), make_penalty(method, "conditional"))
    loss = criterion.critic_loss(z, s, y)
    loss.backward()
    assert loss.requires_grad and loss.shape == () and loss.dtype == z.dtype
    with torch.no_grad():
        assert not criterion.critic_loss(z, s, y).requires_grad


@pytest.mark.parametrize("method", METHODS)
def test_reveal_weighs_the_second_half_only(method):
    z, s, y = make_batch("balanced")
    gradients, losses = [], []
    for reveal in (1.0, 0.25, 0.0):
        penalty = make_penalty(method, "complementary", reveal=reveal)
        gradients.append(value_and_gradient(lambda z, p=penalty: p(z, s, y), z)[1])
        losses.append(penalty.critic_loss(z, s, y))
    half = z.shape[1] // 2
    assert gradients[0][:, half:].abs().max() > 0
    for factor, gradient in zip((0.25, 0.0), gradients[1:]):
        torch.testing.assert_close(gradient[:, :half], gradients[0][:, :half])
        torch.testing.assert_close(gradient[:, half:], factor * gradients[0][:, half:])
    assert losses[0] == losses[1] == losses[2]  # the critics learn all the same
