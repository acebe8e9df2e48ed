"""One censoring step: whose critic says what the penalty is, and what an epoch's end says of it."""

import copy

import pytest
import torch
from cases import IDS, PENALTIES, make_batch, make_penalty
from torch import nn

from braindecode_censor.penalties.measures import Adversary, Measure
from braindecode_censor.penalties.penalty import Penalty
from braindecode_censor.training.censoring import CensoringStep
from braindecode_censor.training.monitor import N_MONITORED, EpochMonitor


@pytest.mark.parametrize("critic_steps", [1, 3])
@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_the_penalty_asks_the_critic_before_its_last_step(method, mode, critic_steps):
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


def test_without_a_gradient_the_numbers_are_the_same():
    z, s, y = make_batch("balanced")
    steps = [CensoringStep(make_penalty("adv", "complementary"), 1e-2) for _ in range(2)]
    for _ in range(3):
        (gradient, numbers), (nothing, same) = steps[0](z, s, y), steps[1](z, s, y, needs_gradient=False)
        assert gradient.abs().max() > 0 and nothing is None
        torch.testing.assert_close(numbers, same)


def test_a_copied_step_goes_on_as_the_first_and_apart_from_it():
    z, s, y = make_batch("balanced")
    step = CensoringStep(make_penalty("adv", "complementary"), critic_lr=1e-2)
    for _ in range(3):
        step(z, s, y)
    copied = copy.deepcopy(step)
    before = [p.detach().clone() for p in step.penalty.parameters()]
    moved, _ = copied(z, s, y)
    for p, old, other in zip(step.penalty.parameters(), before, copied.penalty.parameters()):
        assert (p == old).all()
        assert (other != old).any()
    torch.testing.assert_close(step(z, s, y)[0], moved)


def test_one_trial_pushes_nothing_and_trains_no_critic():
    z, s, y = make_batch("balanced")
    step = CensoringStep(make_penalty("adv", "marginal"))
    with pytest.warns(UserWarning, match="held fewer than two subjects"):
        gradient, numbers = step(z[:1], s[:1], y[:1])
    assert gradient.abs().max() == 0 and numbers[1].isnan()


class Silent(Measure):
    """A measure that has nothing to say, and says it without a graph."""

    def censor(self, z, batch):
        return z.new_zeros(())


@pytest.mark.parametrize("mode", ["marginal", "complementary"])
def test_a_value_without_graph_pushes_nothing(mode):
    z, s, y = make_batch("balanced")
    gradient, _ = CensoringStep(make_penalty(Silent, mode))(z, s, y)
    assert gradient.abs().max() == 0


class OwnNetwork(Adversary):
    """Judges with a network of a user's own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.critic = Embedded(self.n_features, self.n_subjects, self.n_classes)


class Embedded(nn.Module):
    """A network that looks classes up."""

    def __init__(self, n_features, n_subjects, n_classes):
        super().__init__()
        self.linear = nn.Linear(n_features, n_subjects)
        self.table = None if n_classes is None else nn.Embedding(n_classes, n_subjects)

    def forward(self, z, *labels, frozen=False):
        scores = self.linear(z)
        return scores if self.table is None else scores + self.table(*labels)


@pytest.mark.parametrize("mode", ["marginal", "conditional", "complementary"])
def test_a_critic_of_ones_own_learns(mode):
    z, s, y = make_batch("balanced")
    step = CensoringStep(make_penalty(OwnNetwork, mode), critic_lr=1e-1)
    losses = [step(z, s, y)[1][1] for _ in range(40)]
    assert losses[-1] < 0.9 * losses[0]


class Counted(Measure):
    """Says on how many trials it was asked."""

    def censor(self, z, batch):
        return z.square().sum()

    def diagnostics(self, z, batch):
        return {"n_trials": torch.tensor(float(len(z)))}


@pytest.mark.parametrize("has_critic", [False, True])
def test_critics_are_judged_on_many_trials_and_other_measures_on_one_batch(has_critic):
    measure = type("Counted", (Counted,), {"has_critic": has_critic})(6, 4)
    z, s, y = make_batch("balanced")
    monitor, penalty = EpochMonitor(), Penalty([measure], "marginal", 4)
    for k in range(6):
        monitor.add((torch.tensor(float(k)),) * 2, z, s, y)
    found = monitor.report(penalty)
    n_batches = -(-N_MONITORED // len(z)) if has_critic else 1
    assert n_batches in (1, 4)
    assert found == {"penalty": 2.5, "critic_loss": 2.5, "n_trials": n_batches * len(z)}


def test_the_monitor_puts_chance_beside_the_accuracy():
    z, s, y = make_batch("unbalanced")
    step, monitor = CensoringStep(make_penalty("adv", "marginal"), 1e-2), EpochMonitor()
    for _ in range(60):
        numbers = step(z, s, y)[1]
    monitor.add(numbers, z, s, y)
    found = monitor.report(step.penalty)
    assert found["chance"] == pytest.approx(14 / 36)
    assert found["accuracy"] > 0.9
    assert EpochMonitor().report(step.penalty) == {}
