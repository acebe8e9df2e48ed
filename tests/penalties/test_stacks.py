"""Both halves of z and their critics as one stack: is everybody asked who has a say?"""

import importlib.util
import warnings
from pathlib import Path

import pytest
import torch
from cases import N_CLASSES, N_FEATURES, N_SUBJECTS, make_batch, make_penalty
from torch import nn
from torch.func import functional_call, grad, vmap

import braindecode_censor as bc
from braindecode_censor.penalties.critics import LabelledMLP
from braindecode_censor.penalties.measures import BEGAN, MMD, Adversary
from braindecode_censor.penalties.penalty import Penalty
from braindecode_censor.training.callback import _push
from braindecode_censor.training.censoring import CensoringStep, EpochMonitor

HALF = N_FEATURES // 2


class Hundredfold(BEGAN):
    """Writes its own values and promises that they take stacks."""

    takes_stacks = True

    def censor(self, z, batch):
        return 100 * super().censor(z, batch)

    def reveal(self, z, batch):
        return 100 * super().reveal(z, batch)


class HundredfoldWritten(Hundredfold):
    """Writes the gradients, too."""

    writes_gradients = True

    def censor_gradient(self, z, batch):
        return [100 * found for found in super().censor_gradient(z, batch)]

    def reveal_gradient(self, z, batch):
        return [100 * found for found in super().reveal_gradient(z, batch)]


@pytest.mark.parametrize("kind", [Hundredfold, HundredfoldWritten])
def test_a_subclass_is_asked_for_both_halves(kind):
    z, s, y = make_batch("balanced")
    plain, own = (make_penalty(method, "complementary", reveal=0.5) for method in ("began", kind))
    assert len(own.measures) == 1
    torch.testing.assert_close(own(z, s, y), 100 * plain(z, s, y))
    torch.testing.assert_close(own.gradient(z, s, y)[1], 100 * plain.gradient(z, s, y)[1])


@pytest.mark.parametrize("method", ["adv", "began", "mmd"])
def test_a_patched_reveal_is_asked(method):
    z, s, y = make_batch("balanced")
    penalty = make_penalty(method, "complementary")
    measure = penalty.measures[0]
    revealed = measure.reveal(penalty.split(z), penalty.make_batch(z, s, y))[1]
    expected = penalty(z, s, y) + 9 * revealed
    own = type(measure).reveal
    measure.reveal = lambda z, batch: 10 * own(measure, z, batch)
    torch.testing.assert_close(penalty(z, s, y), expected)
    torch.testing.assert_close(CensoringStep(penalty, critic_lr=1e-30)(z, s, y)[1][0], expected.detach())


class OneAtATime(MMD):
    """Says that it takes stacks, and reveals one code only."""

    takes_stacks = True

    def reveal(self, z, batch):
        return -z.var(-2).sum()


def test_a_broken_promise_is_noticed():
    z, s, y = make_batch("balanced")
    with pytest.raises(ValueError, match="reveal returns shape"):
        make_penalty(OneAtATime, "complementary")(z, s, y)


@pytest.mark.parametrize("mode", ["marginal", "conditional", "complementary"])
@pytest.mark.parametrize("method", ["adv", "began"])
def test_a_fleet_of_critics_runs_as_one(method, mode):
    """A batching rule that torch lacks would make it a loop over members, and torch warn."""
    z, s, y = make_batch("balanced")
    penalty = make_penalty(method, mode).eval()
    state = {name: torch.stack([p.detach()] * 3) for name, p in penalty.named_parameters()}

    class Critic(nn.Module):
        def __init__(self):
            super().__init__()
            self.penalty = penalty

        def forward(self, z):
            return self.penalty.critic_loss(z, s, y)

    critic = Critic()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = vmap(grad(lambda z: penalty(z, s, y)))(torch.stack([z] * 3))
        every = vmap(
            grad(lambda own: functional_call(critic, {f"penalty.{k}": v for k, v in own.items()}, z))
        )(state)
    torch.testing.assert_close(one[2], penalty.gradient(z, s, y)[1])
    for found, wanted in zip(every.values(), penalty.critic_gradient(z, s, y)[1], strict=True):
        torch.testing.assert_close(found[1], wanted)


class OwnNetwork(Adversary):
    """Judges with a network of its own, which takes integers."""

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
def test_networks_of_a_users_own(mode):
    z, s, y = make_batch("balanced")
    penalty = make_penalty(OwnNetwork, mode)
    assert len(penalty.measures) == (2 if mode == "complementary" else 1)
    step = CensoringStep(penalty, critic_lr=1e-1)
    losses = [step(z, s, y)[1][1] for _ in range(40)]
    assert losses[-1] < 0.9 * losses[0]


def test_one_measure_for_two_halves_has_two_critics():
    z, s, y = make_batch("balanced")
    joined = make_penalty("adv", "complementary")
    sizes = {"n_features": N_FEATURES, "n_subjects": N_SUBJECTS, "n_classes": N_CLASSES}
    again = bc.make_penalty(joined.measures[0], mode="complementary", **sizes)
    torch.testing.assert_close(again(z, s, y), joined(z, s, y))
    with pytest.raises(ValueError, match="with 2 critics, but mode='marginal' needs 1"):
        bc.make_penalty(joined.measures[0], mode="marginal", **{**sizes, "n_features": HALF})
    for measure in (Adversary(HALF, N_SUBJECTS), BEGAN(HALF, N_SUBJECTS, printed=True)):
        with pytest.raises(ValueError, match="pass two measures"):
            Penalty([measure], "complementary", N_SUBJECTS)


def test_a_network_says_its_sizes_and_asks_one_label_for_all_values():
    mlp = LabelledMLP(6, 2, [5, 3], [4, 4])
    assert "widths=[6, 5, 3, 2], n_labels=[4, 4], networks=1" in repr(mlp)
    with pytest.raises(ValueError, match="only one can be None"):
        mlp(torch.randn(3, 6), None, None)


class Mine(Penalty):
    """Diagnoses by itself, from labels."""

    def diagnostics(self, z, s, y):
        return {"first": z[s == 0].mean()}


def test_diagnostics_of_ones_own_get_labels():
    z, s, y = make_batch("balanced")
    step, monitor = CensoringStep(Mine([MMD()], "marginal", N_SUBJECTS)), EpochMonitor()
    gradient, numbers = step(z, s, y)
    monitor.add(numbers, z, s, y, gradient, step.labels)
    assert monitor.report(step.penalty)["first"] == pytest.approx(z[s == 0].mean().item())


class Counter(nn.Module):
    """A penalty of a user's own that returns a buffer and writes into it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def forward(self, z, s, y, noise=None):
        self.n += 1
        return self.n + 0 * z.sum() if z.requires_grad else self.n

    def critic_parameters(self):
        return []

    def draw_noise(self, generator=None):
        return None

    def diagnostics(self, z, s, y):
        return {}


def test_what_a_penalty_writes_into_later_is_not_what_it_said():
    z, s, y = make_batch("balanced")
    step, monitor = CensoringStep(Counter()), EpochMonitor()
    for _ in range(3):
        monitor.add(step(z, s, y, needs_gradient=False)[1], z, s, y)
    assert monitor.report(step.penalty)["penalty"] == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("method", ["adv", "began", "mmd", "mige"])
def test_half_precision_is_computed_in_single(method, dtype):
    z, s, y = make_batch("balanced")
    coarse = z.to(dtype)
    steps = [CensoringStep(make_penalty(method, "complementary", dtype=torch.float32)) for _ in range(2)]
    found, wanted = (step(code, s, y)[0] for step, code in zip(steps, (coarse, coarse.float())))
    assert found.dtype == dtype
    torch.testing.assert_close(found, wanted.to(dtype), rtol=0, atol=0)


def test_half_precision_is_weighed_before_it_is_rounded():
    leaf = torch.ones(3, dtype=torch.float16, requires_grad=True)
    z = 2 * leaf
    _push(z, torch.full((3,), 2e-8), 1000.0)
    (0 * z).sum().backward()
    torch.testing.assert_close(leaf.grad, torch.full((3,), 4e-5, dtype=torch.float16), rtol=1e-2, atol=0)


def test_a_code_among_several_outputs():
    leaf = torch.randn(4, 6, requires_grad=True)
    first, z = leaf.split(3, dim=1)
    _push(z, torch.ones(4, 3), 0.5)
    (first.sum() + 2 * z.sum()).backward(retain_graph=True)
    expected = torch.cat([torch.ones(4, 3), torch.full((4, 3), 2.5)], 1)
    torch.testing.assert_close(leaf.grad, expected)
    leaf.grad = None
    first.sum().backward()  # a loss that does not know z
    assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize("method", ["adv", "began", "mmd"])
def test_the_benchmark_compares_the_same_numbers(method):
    path = Path(__file__).parents[2] / "benchmarks" / "penalties.py"
    spec = importlib.util.spec_from_file_location("penalties", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ours, loops = module.naive_and_ours(method, "complementary", n_subjects=4, n=16, n_features=8)
    ours(), loops()
    torch.testing.assert_close(ours.value, loops.value)
