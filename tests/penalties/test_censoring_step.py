"""The step of a training: labels that come again, and what an epoch's end says of the penalty."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from cases import IDS, PENALTIES, make_batch, make_penalty

from braindecode_censor.numerics.kernels import DiagonalKernel, rbf
from braindecode_censor.penalties.measures import BEGAN, MIGE, MMD, Adversary, Measure, PairMMD
from braindecode_censor.penalties.measures.contrasts import AllPairs
from braindecode_censor.penalties.penalty import Penalty
from braindecode_censor.training.censoring import CensoringStep, EpochMonitor


@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_labels_that_come_again_or_change_give_what_fresh_ones_give(method, mode):
    penalty = make_penalty(method, mode)
    steps = [CensoringStep(copy.deepcopy(penalty), random_state=3) for _ in range(2)]
    for k, kind in enumerate(["balanced", "balanced", "unbalanced", "balanced", "unbalanced"]):
        z, s, y = make_batch(kind, seed=k)
        _, s, y = make_batch(kind)  # other codes, the same labels
        steps[1]._batch = None, None  # knows nothing
        found, expected = (step(z, s, y) for step in steps)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("written", [True, False], ids=["written", "autograd"])
@pytest.mark.parametrize("critic_steps", [1, 3])
@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_the_penalty_asks_the_critic_before_its_last_step(method, mode, critic_steps, written):
    literal, penalty = make_penalty(method, mode), make_penalty(method, mode)
    if not written:
        penalty.register_forward_hook(lambda *_: None)
    step = CensoringStep(penalty, 1e-2, critic_steps, random_state=3)
    assert step._writes_gradients == written
    generator, optimizer = torch.Generator().manual_seed(3), None
    if literal.has_critic:
        optimizer = torch.optim.Adam(literal.critic_parameters(), 1e-2)
    for seed in range(3):
        z, s, y = make_batch("unbalanced", seed)
        gradient, (value, loss) = step(z, s, y)
        for k in range(critic_steps):
            if k == critic_steps - 1:
                leaf = z.clone().requires_grad_()
                expected = literal(leaf, s, y, literal.draw_noise(generator))
                (wanted,) = torch.autograd.grad(expected, leaf)
            if optimizer is not None:
                optimizer.zero_grad()
                own_loss = literal.critic_loss(z, s, y)
                own_loss.backward()
                optimizer.step()
        torch.testing.assert_close(value, expected.detach(), rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(gradient, wanted, rtol=1e-7, atol=1e-10)
        if optimizer is not None:
            torch.testing.assert_close(loss, own_loss.detach(), rtol=1e-8, atol=1e-10)
    for one, other in zip(penalty.state_dict().values(), literal.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("method", ["adv", "began"])
def test_a_changed_weight_of_revealing_counts_at_once(method):
    penalty = make_penalty(method, "complementary")
    step, (z, s, y) = CensoringStep(penalty, 1e-9), make_batch("balanced")
    for reveal in (0.2, 1.5, 0.0, 0.2):
        penalty.reveal = reveal
        expected = penalty.gradient(z, s, y)[1]
        torch.testing.assert_close(step(z, s, y)[0], expected, rtol=1e-5, atol=1e-8)
    assert len(step._batch[0].facts) < 10  # versions do not pile up


class Promised(Adversary):
    """Writes a gradient of its own, and says so."""

    writes_gradients = True

    def censor(self, z, batch):
        return 2 * super().censor(z, batch)

    def censor_gradient(self, z, batch):
        value, gradient = super().censor_gradient(z, batch)
        return 2 * value, 2 * gradient


class Louder(BEGAN):
    """Writes the discriminator's gradient anew, and says so."""

    writes_gradients = True

    def critic_loss(self, z, batch):
        return 3 * super().critic_loss(z, batch)

    def critic_gradient(self, z, batch):
        loss, gradients = super().critic_gradient(z, batch)
        return 3 * loss, [3 * gradient for gradient in gradients]


@pytest.mark.parametrize("kind", [Promised, Louder])
def test_a_promise_of_a_subclass_is_kept_in_training(kind):
    z, s, y = make_batch("balanced")
    penalty = Penalty([kind(z.shape[1], 4).double()], "marginal", 4)
    assert penalty.writes_gradients()
    leaf = z.clone().requires_grad_()
    twin = copy.deepcopy(penalty)
    expected, own = twin(leaf, s), twin.critic_loss(z, s)
    gradient, (value, loss) = CensoringStep(penalty)(z, s, y)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, leaf)[0])
    torch.testing.assert_close((value, loss), (expected.detach(), own.detach()))


@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_autocast_is_left_for_what_is_written_out(method, mode):
    z, s, y = make_batch("balanced", dtype=torch.float32)
    penalty = make_penalty(method, mode, dtype=torch.float32).eval()
    noise = penalty.draw_noise(torch.Generator().manual_seed(0))
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            one = (
                penalty.gradient(z, s, y, noise),
                penalty.critic_gradient(z, s, y)[0],
                penalty.diagnostics(z, s, y),
            )
            found.append(one)
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


@pytest.mark.parametrize("method", ["adv", "began"])
def test_two_threads_may_ask_one_penalty(method):
    penalty, (z, s, y) = make_penalty(method, "complementary").eval(), make_batch("balanced")
    codes = [z + k for k in range(40)]
    expected = [penalty.gradient(code, s, y)[1] for code in codes]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda code: penalty.gradient(code, s, y)[1], codes * 5))
    torch.testing.assert_close(found, expected * 5, rtol=0, atol=0)


def test_labels_of_few_bits():
    z, s, y = make_batch("balanced")
    for method in ("adv", "began"):
        penalty = make_penalty(method, "complementary")
        expected = penalty.gradient(z, s, y)[1]
        gradient, _ = CensoringStep(penalty)(z, s.to(torch.int8), y.to(torch.int8))
        torch.testing.assert_close(gradient, expected)


def test_labels_written_over_are_noticed():
    z, s, y = make_batch("balanced")
    step, fresh = (CensoringStep(make_penalty("mmd", "conditional")) for _ in range(2))
    step(z, s, y)
    s.copy_(s.flip(0))
    torch.testing.assert_close(step(z, s, y)[0], fresh(z, s, y)[0], rtol=0, atol=0)


@pytest.mark.parametrize("mode", ["marginal", "conditional"])
def test_a_code_that_does_not_fit_known_labels_is_refused(mode):
    z, s, y = make_batch("balanced")
    step = CensoringStep(make_penalty("mmd", mode))
    step(z, s, y)
    with pytest.raises(ValueError, match="features"):
        step(z[:, :4], s, y)
    with pytest.raises(ValueError, match="shape"):
        step(z[None], s, y)
    with pytest.raises(ValueError, match="entries"):
        step(z[:-1], s, y)
    if mode == "conditional":
        with pytest.raises(ValueError, match="pass y"):
            step(z, s, None)


class Halved(Penalty):
    """A penalty of a user's own."""

    def forward(self, *args, **kwargs):
        return 0.5 * super().forward(*args, **kwargs)


class Doubled(MIGE):
    """A measure of a user's own, whose diagnostics are MIGE's."""

    def censor(self, z, batch):
        return 2 * super().censor(z, batch)


class Silent(MIGE):
    """Diagnostics that know no gradient."""

    def diagnostics(self, z, batch):
        return super().diagnostics(z, batch)


def _plain(measure, mode):
    return Penalty([measure] * (2 if mode == "complementary" else 1), mode, 4, 3, reveal=0.7)


@pytest.mark.parametrize("mode", ["marginal", "conditional", "complementary"])
@pytest.mark.parametrize("kind", ["plain", "hooked", Halved, Doubled, Silent])
def test_scale_force_is_that_of_the_measure(kind, mode):
    z, s, y = make_batch("balanced")
    width = z.shape[1] // (2 if mode == "complementary" else 1)
    measure = (kind if isinstance(kind, type) and issubclass(kind, MIGE) else MIGE)(width, 4)
    penalty = _plain(measure, mode)
    expected = penalty.diagnostics(z, s, y)
    if kind is Halved:
        penalty.__class__ = Halved
    elif kind == "hooked":
        penalty.register_forward_hook(lambda module, inputs, output: 3 * output)
    monitor = EpochMonitor()
    gradient, numbers = CensoringStep(penalty)(z, s, y)
    monitor.add(numbers, z, s, y, gradient)
    found = monitor.report(penalty)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value.item(), rel=1e-6), name


def test_the_known_gradient_is_used_where_it_can_be(monkeypatch):
    z, s, y = make_batch("balanced")
    penalty = _plain(MIGE(z.shape[1], 4), "marginal")
    gradient, numbers = CensoringStep(penalty)(z, s, y)
    monitor = EpochMonitor()
    monitor.add(numbers, z, s, y, gradient)
    monkeypatch.setattr(MIGE, "gradient", lambda *_: pytest.fail("computed again"))
    assert "scale_force" in monitor.report(penalty)


class Counted(Measure):
    """Says on how many trials it was asked."""

    def censor(self, z, batch):
        return z.square().sum()

    def critic_loss(self, z, batch):
        return z.sum() * 0

    def diagnostics(self, z, batch):
        return {"n_trials": torch.tensor(float(len(z)))}


@pytest.mark.parametrize("has_critic", [False, True])
def test_critics_are_judged_on_many_trials(has_critic):
    measure = type("Counted", (Counted,), {"has_critic": has_critic})(6, 4)
    z, s, y = make_batch("balanced")
    monitor, penalty = EpochMonitor(), Penalty([measure], "marginal", 4)
    for _ in range(3):
        monitor.add((torch.zeros(()),) * 2, z, s, y)
    n_batches = min(3, -(-128 // len(z))) if has_critic else 1
    assert monitor.report(penalty)["n_trials"] == n_batches * len(z)


@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_inference_mode_changes_no_number(method, mode):
    steps = [
        CensoringStep(make_penalty(method, mode), 1e-2, critic_steps=2, random_state=3) for _ in range(2)
    ]
    assert steps[0]._mode is torch.inference_mode
    steps[1]._mode = torch.no_grad
    monitors = EpochMonitor(), EpochMonitor()
    for seed, kind in enumerate(["balanced", "unbalanced", "balanced"]):
        z, s, y = make_batch(kind, seed)
        results = [step(z, s, y) for step in steps]
        torch.testing.assert_close(*results, rtol=0, atol=0, equal_nan=True)
        for monitor, step, (gradient, numbers) in zip(monitors, steps, results):
            monitor.add(numbers, z, s, y, gradient, step.labels)
    for one, other in zip(*(step.penalty.state_dict().values() for step in steps), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    first, second = (monitor.report(step.penalty) for monitor, step in zip(monitors, steps))
    assert first == pytest.approx(second, rel=0, abs=0, nan_ok=True)


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_nothing_of_inference_mode_is_left_behind(method, mode, moved):
    z, s, y = make_batch("balanced")
    step = CensoringStep(make_penalty(method, mode), random_state=3)
    if moved:  # its optimiser has to follow the parameters
        step.penalty.float().double()
    gradient, numbers = step(z, s, y)
    monitor = EpochMonitor()
    monitor.add(numbers, z, s, y, gradient, step.labels)
    monitor.report(step.penalty)
    for tensor in (gradient, *numbers, *step.penalty.state_dict().values()):
        assert not tensor.is_inference()
        tensor.mul_(1)
    leaf = z.clone().requires_grad_()
    value = step.penalty(leaf, *step.labels, noise=step.noise)
    value.backward()
    assert leaf.grad is not None
    if step.optimizer is not None:
        step.penalty.critic_loss(z, *step.labels).backward()
        assert all(p.grad is not None for p in step.optimizer.parameters)
    copy.deepcopy(step)(z, s, y)


class KernelByAutograd(DiagonalKernel):
    """A kernel of a user's own that leaves the derivative of its profile to autograd."""

    takes_stacks = True

    def operator(self, x, y, d2, precision, mask):
        with torch.enable_grad():
            leaf = d2.detach().clone().requires_grad_()
            psi = torch.exp(-0.5 * precision * leaf)
            (first,) = torch.autograd.grad(psi.sum(), leaf)
        psi = psi.detach()
        divergence = -2 * (first.sum(-1, keepdim=True) * x - first @ y)
        return (lambda c: psi @ c), divergence, (lambda: psi)


def profile_by_autograd(d2, p, order=3):
    with torch.enable_grad():
        leaf = d2.detach().clone().requires_grad_()
        psi = torch.exp(-0.5 * p * leaf)
        return [psi.detach(), torch.autograd.grad(psi.sum(), leaf)[0]][: order + 1]


@pytest.mark.parametrize("mode", ["marginal", "complementary"])
@pytest.mark.parametrize("kernel", [KernelByAutograd(rbf), DiagonalKernel(profile_by_autograd)])
def test_a_part_of_a_users_own_may_ask_autograd(kernel, mode):
    z, s, y = make_batch("balanced")
    found = CensoringStep(make_penalty("mige", mode, kernel=kernel))
    assert found._writes_gradients and found._mode is torch.no_grad
    expected = CensoringStep(make_penalty("mige", mode, kernel="rbf"))
    torch.testing.assert_close(found(z, s, y), expected(z, s, y), equal_nan=True)


@pytest.mark.parametrize("needs_gradient", [True, False])
@pytest.mark.parametrize("mode", ["marginal", "conditional", "complementary"])
def test_began_keeps_what_it_saw_before_its_last_step(mode, needs_gradient):
    penalty, monitor = make_penalty("began", mode), EpochMonitor()
    step = CensoringStep(penalty, 1e-2)
    for seed in range(3):
        z, s, y = make_batch("balanced", seed)
        expected = penalty.diagnostics(z, s, y)
        gradient, numbers = step(z, s, y, needs_gradient)
        monitor.add(numbers, z, s, y, gradient, step.labels)
    found = monitor.report(penalty)
    names = {"divergence"} if mode != "complementary" else {"divergence", "divergence_reveal"}
    assert names < expected.keys() and expected.keys() < found.keys()
    for name in names:
        assert found[name] == pytest.approx(expected[name].item(), rel=1e-9)
    assert found["k"] == penalty.diagnostics(z, s, y)["k"].item()
    assert not [name for name in penalty.state_dict() if "divergence" in name]


def test_diagnostics_of_a_users_own_are_asked():
    class Told(BEGAN):
        """Says something else."""

        def diagnostics(self, z, batch):
            return {"mine": z.new_ones(z.shape[:-2])}

    z, s, y = make_batch("balanced")
    penalty, monitor = Penalty([Told(z.shape[1], 4).double()], "marginal", 4), EpochMonitor()
    monitor.add(CensoringStep(penalty)(z, s, y)[1], z, s, y)
    assert monitor.report(penalty)["mine"] == 1


class OwnLoss(BEGAN):
    """A discriminator's loss of a user's own, which keeps nothing."""

    def critic_loss(self, z, batch):
        codes, _ = self._standardised(z)
        everyone, own, *_ = self._weights(batch, z.dtype)
        return ((everyone - own) * self._errors(codes, batch, True, frozen=False)).sum()


def _report(penalty, n_steps=2):
    z, s, y = make_batch("balanced")
    step, monitor = CensoringStep(penalty), EpochMonitor()
    for _ in range(n_steps):
        gradient, numbers = step(z, s, y)
        monitor.add(numbers, z, s, y, gradient, step.labels)
    return monitor.report(penalty)


@pytest.mark.parametrize("kind", ["subclass", "evaluated", "patched"])
def test_began_is_asked_where_it_keeps_nothing(kind):
    z, *_ = make_batch("balanced")
    measure = (OwnLoss if kind == "subclass" else BEGAN)(z.shape[1], 4).double()
    penalty = Penalty([measure], "marginal", 4)
    assert penalty.keeps_diagnostics() == (kind != "subclass")
    if kind == "evaluated":
        penalty.eval()
    elif kind == "patched":
        measure.diagnostics = lambda z, batch: {"divergence": z.new_ones(())}
    found = _report(penalty)["divergence"]
    assert found == 1 if kind == "patched" else found == found != 0


class GradientByAutograd(Penalty):
    """A penalty of a user's own that asks autograd where nobody expects it."""

    def written_gradient(self, codes, batch):
        leaf = codes.detach().requires_grad_()
        with torch.enable_grad():
            value = self._evaluate(leaf, batch)
        return value.detach(), torch.autograd.grad(value, leaf)[0]


class Remembering(AllPairs):
    """A contrast of a user's own that keeps a tensor."""

    seen = None

    def select(self, usable, noise):
        self.seen = usable.sum(0) if self.seen is None else self.seen.add_(usable.sum(0))
        return super().select(usable, noise)


def _patched():
    penalty, kept = make_penalty("mmd", "marginal"), {}
    scale = penalty.measures[0].lengthscale
    original = scale.precision

    def precision(d2, same=None):
        new = original(d2, same)
        kept["mean"] = kept["mean"].lerp_(new, 0.1) if kept else new
        return kept["mean"]

    scale.precision = precision
    return penalty


def _hooked():
    penalty, kept = make_penalty("adv", "marginal"), {}

    def hook(module, inputs, output):
        kept["mean"] = kept["mean"].mul_(0.9) if kept else output.detach().mean().clone()

    penalty.measures[0].critic.register_forward_hook(hook)
    return penalty


OWN_PARTS = {
    "penalty": lambda width: GradientByAutograd([MMD(width, 4)], "marginal", 4),
    "contrast": lambda width: Penalty([PairMMD(width, 4, pairs=Remembering())], "marginal", 4),
    "patched": lambda width: _patched(),
    "hooked": lambda width: _hooked(),
}


@pytest.mark.parametrize("part", OWN_PARTS)
def test_whatever_a_user_adds_stays_out_of_inference_mode(part):
    z, s, y = make_batch("balanced")
    penalty = OWN_PARTS[part](z.shape[1])
    assert CensoringStep(penalty)._mode is torch.no_grad
    for _ in range(2):
        _report(penalty)
        penalty(z.clone().requires_grad_(), s, y)


def test_scores_fitted_in_a_step_are_of_use_to_autograd():
    z, s, y = make_batch("balanced")
    penalty = make_penalty("mige", "marginal")
    CensoringStep(penalty)(z, s, y)
    scores = penalty.measures[0].score.at_samples()
    weight = torch.ones(scores.shape[-1], dtype=scores.dtype, requires_grad=True)
    (scores * weight).sum().backward()
    assert weight.grad is not None
