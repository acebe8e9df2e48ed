"""Is the gradient that training uses the derivative of the value?"""

import pytest
import torch
from cases import IDS, METHODS, MODES, PENALTIES, critics, make_batch, make_penalty

import braindecode_censor as bc

# Length scales and batch statistics are held constant by design, so gradcheck needs them fixed.
CONSTANT = {
    "adv": {},
    "mmd": {"lengthscale": 2.0},
    "pairmmd": {"lengthscale": 2.0},
    "began": {"standardise": False},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", CONSTANT)
def test_gradcheck(method, mode):
    z, s, y = (tensor[:14] for tensor in make_batch("unbalanced"))
    penalty = make_penalty(method, mode, **CONSTANT[method])
    z.requires_grad_()
    # BEGAN's absolute value has kinks; a random point is on none of them.
    assert torch.autograd.gradcheck(lambda z: penalty(z, s, y), z, eps=1e-7, atol=1e-6)


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
    z.requires_grad_()
    gradients, losses = [], []
    for reveal in (1.0, 0.25, 0.0):
        penalty = make_penalty(method, "complementary", reveal=reveal)
        gradients.append(torch.autograd.grad(penalty(z, s, y), z)[0])
        losses.append(penalty.critic_loss(z.detach(), s, y))
    half = z.shape[1] // 2
    assert gradients[0][:, half:].abs().max() > 0
    for factor, gradient in zip((0.25, 0.0), gradients[1:]):
        torch.testing.assert_close(gradient[:, :half], gradients[0][:, :half])
        torch.testing.assert_close(gradient[:, half:], factor * gradients[0][:, half:])
    assert losses[0] == losses[1] == losses[2]  # the critics learn all the same


@pytest.mark.parametrize("mode", MODES)
def test_a_step_along_the_adversary_gradient_confuses_it(mode):
    """Descent on the penalty raises the cross-entropy of what is censored and lowers that of what reveals."""
    z, s, y = make_batch("balanced")
    penalty = make_penalty("adv", mode)
    optimiser = torch.optim.Adam(penalty.critic_parameters(), lr=1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        penalty.critic_loss(z, s, y).backward()
        optimiser.step()
    leaf = z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(penalty(leaf, s, y), leaf)
    moved = z - 0.5 * gradient / gradient.abs().max()

    def cross_entropies(code):
        halves = (code[:, :3], code[:, 3:]) if mode == "complementary" else (code,)
        labels = (y,) if mode == "conditional" else ()
        return [
            torch.nn.functional.cross_entropy(critic(h, *labels), s).item()
            for critic, h in zip(critics(penalty), halves)
        ]

    before, after = cross_entropies(z), cross_entropies(moved)
    assert after[0] > before[0]
    if mode == "complementary":
        assert after[1] < before[1]
