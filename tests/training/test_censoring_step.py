"""The censoring step, its critic, and the numbers of an epoch."""

import pytest
import torch
from cases import IDS, PENALTIES, make_batch, make_penalty

from braindecode_censor.penalties.measures import Measure
from braindecode_censor.penalties.penalty import Penalty
from braindecode_censor.training.censoring import CensoringStep
from braindecode_censor.training.monitor import N_MONITORED, EpochMonitor


@pytest.mark.parametrize("critic_steps", [1, 3])
@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_penalty_is_computed_before_the_last_critic_step(method, mode, critic_steps):
    by_hand, penalty = make_penalty(method, mode), make_penalty(method, mode)
    step = CensoringStep(penalty, 1e-2, critic_steps, random_state=3)
    generator, optimizer = torch.Generator().manual_seed(3), None
    if by_hand.has_critic:
        optimizer = torch.optim.Adam(by_hand.critic_parameters(), 1e-2)
    for seed in range(3):
        z, s, y = make_batch("unbalanced", seed)
        gradient, (value, loss) = step(z, s, y)
        for k in range(critic_steps):
            if k == critic_steps - 1:
                leaf = z.clone().requires_grad_()
                expected = by_hand(leaf, s, y, by_hand.draw_noise(generator))
                (wanted,) = torch.autograd.grad(expected, leaf)
            if optimizer is not None:
                optimizer.zero_grad()
                own_loss = by_hand.critic_loss(z, s, y)
                own_loss.backward()
                optimizer.step()
        torch.testing.assert_close(value, expected.detach(), rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(gradient, wanted, rtol=1e-7, atol=1e-10)
        if optimizer is not None:
            torch.testing.assert_close(loss, own_loss.detach(), rtol=1e-8, atol=1e-10)
        else:
            assert loss.isnan()
    for one, other in zip(penalty.state_dict().values(), by_hand.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


def test_numbers_without_gradient_are_equal():
    z, s, y = make_batch("balanced")
    steps = [CensoringStep(make_penalty("adv", "complementary"), 1e-2) for _ in range(2)]
    for _ in range(3):
        (gradient, numbers), (nothing, same) = steps[0](z, s, y), steps[1](z, s, y, needs_gradient=False)
        assert gradient.abs().max() > 0 and nothing is None
        torch.testing.assert_close(numbers, same)


def test_single_trial_has_zero_gradient():
    z, s, y = make_batch("balanced")
    step = CensoringStep(make_penalty("adv", "marginal"))
    with pytest.warns(UserWarning, match="fewer than two subjects"):
        gradient, numbers = step(z[:1], s[:1], y[:1])
    assert gradient.abs().max() == 0 and numbers[1].isnan()


class Counted(Measure):
    def censor(self, z, batch):
        return z.square().sum()

    def diagnostics(self, z, batch):
        return {"n_trials": torch.tensor(float(len(z)))}


@pytest.mark.parametrize("has_critic", [False, True])
def test_critics_are_monitored_on_many_trials(has_critic):
    measure = type("Counted", (Counted,), {"has_critic": has_critic})(6, 4)
    z, s, y = make_batch("balanced")
    monitor, penalty = EpochMonitor(), Penalty([measure], "marginal", 4)
    for k in range(6):
        monitor.add((torch.tensor(float(k)),) * 2, z, s, y)
    report = monitor.report(penalty)
    n_batches = -(-N_MONITORED // len(z)) if has_critic else 1
    assert n_batches in (1, 4)
    assert report == {"penalty": 2.5, "critic_loss": 2.5, "n_trials": n_batches * len(z)}


def test_monitor_reports_chance():
    z, s, y = make_batch("unbalanced")
    step, monitor = CensoringStep(make_penalty("adv", "marginal"), 1e-2), EpochMonitor()
    for _ in range(60):
        numbers = step(z, s, y)[1]
    monitor.add(numbers, z, s, y)
    report = monitor.report(step.penalty)
    assert report["chance"] == pytest.approx(14 / 36)
    assert report["accuracy"] > 0.9
    assert EpochMonitor().report(step.penalty) == {}
