"""Gradients that are written out by hand, against autograd."""

import copy
import pickle

import pytest
import torch
from cases import BATCHES, IDS, N_CLASSES, N_FEATURES, N_SUBJECTS, PENALTIES, make_batch, make_penalty
from torch import nn

from braindecode_censor.penalties.critics import LabelledMLP
from braindecode_censor.penalties.measures import BEGAN, MMD, Adversary
from braindecode_censor.penalties.penalty import Penalty
from braindecode_censor.training.censoring import CensoringStep

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
OPTIONS = [
    ("adv", {"reduction": "sum"}),
    ("adv", {"hidden": 5, "n_layers": 1}),
    ("adv", {"min_trials": 4}),
    ("mmd", {"kernel": "imq", "self_pairs": True}),
    ("pairmmd", {"pairs": "bernoulli"}),
    ("mige", {"score": "nu", "lengthscale": "tsne", "calibrate": True}),
    ("began", {"standardise": False}),
    ("began", {"reduction": "sum", "gamma": 0.7}),
    ("began", {"printed": True}),
]
CASES = [(method, mode, {}) for method, mode in PENALTIES]
CASES += [(m, mode, o) for m, o in OPTIONS for mode in ("marginal", "conditional", "complementary")]
NAMES = [*IDS, *(f"{method}-{mode}-{options}" for method, mode, options in CASES[len(IDS) :])]


def learnt(method, mode, **options):
    """A penalty whose critic is no longer as it began, nor its control."""
    penalty = make_penalty(method, mode, reveal=0.6, **options)
    z, s, y = make_batch("unbalanced", seed=1)
    step = CensoringStep(penalty, critic_lr=1e-2)
    for _ in range(5):
        step(z, s, y)
    for name, control in penalty.named_buffers():
        if name.endswith("k"):
            control.copy_(torch.linspace(0.2, 0.9, control.numel()).view_as(control))
    return penalty


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize(("method", "mode", "options"), CASES, ids=NAMES)
@pytest.mark.filterwarnings("ignore::braindecode_censor.penalties.penalty.DegenerateBatchWarning")
def test_gradients_are_those_of_autograd(method, mode, options, kind):
    z, s, y = make_batch(kind)
    penalty = learnt(method, mode, **options)
    noise = penalty.draw_noise(torch.Generator().manual_seed(0))
    leaf = z.clone().requires_grad_()
    expected = penalty(leaf, s, y, noise)
    value, gradient = penalty.gradient(z, s, y, noise)
    torch.testing.assert_close(value, expected.detach(), **CLOSE)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, leaf)[0], **CLOSE)
    assert not value.requires_grad and not gradient.requires_grad

    if penalty.has_critic:
        twin = copy.deepcopy(penalty)
        expected = penalty.critic_loss(z, s, y)
        loss, gradients = twin.critic_gradient(z, s, y)
        torch.testing.assert_close(loss, expected.detach(), **CLOSE)
        wanted = torch.autograd.grad(expected, penalty.critic_parameters())
        assert len(gradients) == len(wanted)
        for found, own in zip(gradients, wanted):
            torch.testing.assert_close(found, own, **CLOSE)
        for (_, control), (_, moved) in zip(penalty.named_buffers(), twin.named_buffers()):
            torch.testing.assert_close(moved, control, **CLOSE)


# the printed form asks autograd
WITH_CRITIC = [
    case for case in zip(CASES, NAMES) if case[0][0] in ("adv", "began") and "printed" not in case[0][2]
]


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize(
    ("method", "mode", "options"), [c for c, _ in WITH_CRITIC], ids=[n for _, n in WITH_CRITIC]
)
@pytest.mark.filterwarnings("ignore::braindecode_censor.penalties.penalty.DegenerateBatchWarning")
def test_one_evaluation_of_the_critic_gives_what_two_give(method, mode, options, kind):
    z, s, y = make_batch(kind)
    penalty = learnt(method, mode, **options)
    assert penalty.writes_gradients()
    twin = copy.deepcopy(penalty)
    wanted = [*penalty.gradient(z, s, y), *penalty.critic_gradient(z, s, y)]  # the second moves k
    with torch.no_grad():
        found = twin.written_gradients(twin.split(z), twin.make_batch(z, s, y))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)
    for (_, control), (_, moved) in zip(penalty.named_buffers(), twin.named_buffers()):
        torch.testing.assert_close(moved, control, **CLOSE)


def test_memory_of_earlier_batches_changes_nothing(monkeypatch):
    mlp = LabelledMLP(N_FEATURES, 5, [7, 3, 7], [N_SUBJECTS]).double()
    fresh = copy.deepcopy(mlp)
    with torch.no_grad():
        for n in (4, 9, 4, 2, 9):
            codes, cotangent = (
                torch.randn(1, n, N_FEATURES).double(),
                torch.randn(1, n, N_SUBJECTS, 5).double(),
            )
            fresh.scratch.clear()
            output, tape = mlp.trace(codes, None)
            expected, other = fresh.trace(codes, None)
            torch.testing.assert_close(output, expected, rtol=0, atol=0)
            for one, own in zip(
                mlp.pull_back(cotangent, tape, to="both")[1], fresh.pull_back(cotangent, other, to="both")[1]
            ):
                torch.testing.assert_close(one, own, rtol=0, atol=0)
        with torch.inference_mode():
            mlp.trace(codes.clone(), None)
        torch.testing.assert_close(mlp.trace(codes, None)[0], output, rtol=0, atol=0)
        monkeypatch.setattr(type(mlp.scratch), "_MOST", 2**16)
        for n in range(2, 60):
            mlp.trace(torch.randn(1, n, N_FEATURES).double(), None)
    assert 0 < sum(tensor.nbytes for tensor in mlp.scratch.values()) <= 2**16
    assert not copy.deepcopy(mlp).scratch and not pickle.loads(pickle.dumps(mlp)).scratch


@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_a_training_step_asks_no_autograd(method, mode, monkeypatch):
    z, s, y = make_batch("balanced", dtype=torch.float32)
    step = CensoringStep(make_penalty(method, mode, dtype=torch.float32))

    def fail(*args, **kwargs):
        raise AssertionError("autograd was asked")

    monkeypatch.setattr(torch.autograd, "grad", fail)
    monkeypatch.setattr(Penalty, "forward", fail)
    monkeypatch.setattr(LabelledMLP, "forward", fail)
    gradient, numbers = step(z, s, y)
    assert gradient.abs().max() > 0 and torch.isfinite(numbers[0])


class Cubed(Adversary):
    """Changes the value and says nothing of gradients."""

    def censor(self, z, batch):
        return super().censor(z, batch) ** 3


class Heavier(Adversary):
    """Changes the critic's own loss."""

    def critic_loss(self, z, batch):
        return 3 * super().critic_loss(z, batch)


class Shy(MMD):
    """Reveals in a way of its own."""

    def reveal(self, z, batch):
        return -0.1 * super().censor(z, batch)


class Reluctant(MMD):
    """Says that it writes no gradients."""

    writes_gradients = False

    def censor(self, z, batch):
        return super().censor(z, batch) ** 3


class Smoothed(Adversary):
    """Changes a part that is not public."""

    def _cross_entropies(self, z, batch, frozen=False):
        return super()._cross_entropies(z, batch, frozen) ** 2


def patched(measure):
    measure.censor = lambda z, batch: Adversary.censor(measure, z, batch) ** 3


def hooked(measure):
    measure.critic.register_forward_hook(lambda module, inputs, output: 2 * output)


def other_network(measure):
    measure.critic = nn.Sequential(nn.Linear(N_FEATURES, 8), nn.Tanh(), nn.Linear(8, N_SUBJECTS)).double()
    measure.critic.forward = lambda z, frozen=False: nn.Sequential.forward(measure.critic, z)


def constrained(measure):
    nn.utils.parametrizations.spectral_norm(measure.critic, "weight_0")


@pytest.mark.parametrize(
    ("make", "mode", "change"),
    [
        (Cubed, "marginal", None),
        (Heavier, "marginal", None),
        (Shy, "complementary", None),
        (Adversary, "marginal", other_network),
        (Adversary, "marginal", constrained),
        (BEGAN, "conditional", constrained),
        (Reluctant, "marginal", None),
        (Smoothed, "conditional", None),
        (Adversary, "marginal", patched),
        (BEGAN, "marginal", hooked),
    ],
)
def test_who_changes_something_gets_autograd(make, mode, change):
    z, s, y = make_batch("balanced")
    penalty = make_penalty(make, mode).eval()
    if change is not None:
        change(penalty.measures[0])
    leaf = z.clone().requires_grad_()
    expected = torch.autograd.grad(penalty(leaf, s, y), leaf)[0]
    torch.testing.assert_close(penalty.gradient(z, s, y)[1], expected)
    if penalty.has_critic:
        options = {"allow_unused": True, "materialize_grads": True}
        wanted = torch.autograd.grad(penalty.critic_loss(z, s, y), penalty.critic_parameters(), **options)
        for found, own in zip(penalty.critic_gradient(z, s, y)[1], wanted):
            torch.testing.assert_close(found, own)


def test_labels_of_both_kinds_in_one_network():
    """Every value of one label, and a given value of the other, as the conditional discriminator is asked."""
    torch.manual_seed(0)
    mlp = LabelledMLP(N_FEATURES, 2, [5, 3, 4], [N_SUBJECTS, N_CLASSES]).double()
    z, _, y = make_batch("unbalanced")
    other = LabelledMLP(N_FEATURES, 2, [5, 3, 4], [N_SUBJECTS, N_CLASSES]).double()
    codes = torch.stack([z, z.flip(0)])
    alone = torch.stack([net(code, None, y) for net, code in zip((mlp, other), codes)])
    mlp.join([other])
    cotangent = torch.randn(2, len(z), N_SUBJECTS, 2, dtype=z.dtype)
    leaf = codes.clone().requires_grad_()
    output = mlp(leaf, None, y)
    torch.testing.assert_close(output, alone, **CLOSE)
    for i, code in enumerate(codes):
        torch.testing.assert_close(mlp(code, None, y, only=i), alone[i], **CLOSE)
    with torch.no_grad():
        traced, tape = mlp.trace(codes, None, y)
    torch.testing.assert_close(traced, output.detach(), **CLOSE)
    wanted = torch.autograd.grad(output, [leaf, *mlp.parameters()], cotangent)
    with torch.no_grad():
        found = [mlp.pull_back(cotangent, tape, to="z"), *mlp.pull_back(cotangent, tape, to="parameters")]
        into_z, into_parameters = mlp.pull_back(cotangent, tape, to="both")
    for one, both, other in zip(found, [into_z, *into_parameters], wanted, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)
        torch.testing.assert_close(both, other, **CLOSE)


def test_a_measure_put_in_later_is_asked_itself():
    z, s, y = make_batch("balanced")
    penalty = make_penalty("adv", "marginal")
    penalty.measures[0] = make_penalty(Cubed, "marginal").measures[0]
    leaf = z.clone().requires_grad_()
    expected = torch.autograd.grad(penalty(leaf, s, y), leaf)[0]
    torch.testing.assert_close(penalty.gradient(z, s, y)[1], expected)


def test_hooks_on_the_penalty_are_called():
    z, s, y = make_batch("balanced")
    penalty = make_penalty("mmd", "marginal")
    plain = penalty.gradient(z, s, y)[1]
    penalty.register_forward_hook(lambda module, inputs, output: 3 * output)
    torch.testing.assert_close(CensoringStep(penalty)(z, s, y)[0], 3 * plain)


class Partly(Penalty):
    """Trains the last layer only."""

    def critic_parameters(self):
        critic = self.measures[0].critic
        return [critic.weight_3, critic.bias_3]


def test_only_the_parameters_that_are_to_be_trained_are():
    z, s, y = make_batch("balanced")
    plain = make_penalty("adv", "marginal")
    penalty = Partly(plain.measures, "marginal", N_SUBJECTS)
    before = [p.detach().clone() for p in penalty.parameters()]
    CensoringStep(penalty)(z, s, y)
    assert [bool((p == old).all()) for p, old in zip(penalty.parameters(), before)] == [True] * 6 + [
        False
    ] * 2


def test_a_critic_of_both_halves():
    z, s, y = make_batch("balanced")
    measures = [Adversary(N_FEATURES // 2, N_SUBJECTS).double() for _ in range(2)]
    measures[1].critic = measures[0].critic
    penalty = Penalty(measures, "complementary", N_SUBJECTS)
    step = CensoringStep(penalty, critic_lr=1e-2)
    losses = [step(z, s, y)[1][1] for _ in range(30)]
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_one_trial_has_no_gradient_in_any_critic(method, mode):
    z, s, y = make_batch("balanced")
    penalty = make_penalty(method, mode)
    loss, gradients = penalty.critic_gradient(z[:1], s[:1], y[:1])
    assert loss == 0 and len(gradients) == len(penalty.critic_parameters())
    assert all((g == 0).all() for g in gradients)


@pytest.mark.parametrize("method", ["adv", "began"])
def test_a_code_that_wants_a_gradient(method):
    z, s, y = make_batch("balanced")
    plain, other = (CensoringStep(make_penalty(method, "complementary")) for _ in range(2))
    torch.testing.assert_close(other(z.clone().requires_grad_(), s, y)[0], plain(z, s, y)[0], **CLOSE)


def test_a_promise_half_kept_is_noticed():
    class Half(Shy):
        writes_gradients = True

    z, s, y = make_batch("balanced")
    with pytest.raises(NotImplementedError, match="write reveal_gradient"):
        make_penalty(Half, "complementary").gradient(z, s, y)


def test_the_warning_points_to_the_caller():
    z, s, y = make_batch("balanced")
    with pytest.warns(UserWarning, match="held fewer") as caught:
        make_penalty("mmd", "marginal")(z, torch.zeros_like(s), y)
    assert caught[0].filename == __file__
