"""Every measure and mode: scalar, finite, dtype kept, vmap, compile, pickle, copy, seeds."""

import copy
import pickle
import warnings

import pytest
import torch
from cases import (
    BATCHES,
    IDS,
    METHODS,
    MODES,
    N_CLASSES,
    N_FEATURES,
    N_SUBJECTS,
    PENALTIES,
    make_batch,
    make_penalty,
    value_and_gradient,
)
from torch.func import functional_call, stack_module_state, vmap

import braindecode_censor as bc
from braindecode_censor.numerics.groups import equal_groups, same_group
from braindecode_censor.numerics.scores import SCORES
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.penalties.modes import MODES as ALL_MODES
from braindecode_censor.penalties.penalty import DegenerateBatchWarning

MIGE_SCORES = [("mige", mode, {"score": score}) for mode in MODES for score in SCORES]
CALIBRATED = [(m, mode, {**options, "calibrate": True}) for m, mode, options in MIGE_SCORES]
RANDOM_PAIRS = [("pairmmd", mode, {"pairs": pairs}) for mode in MODES for pairs in ("bernoulli", "clique")]
TSNE = [("mige", "marginal", {"score": "tikhonov", "lengthscale": "tsne"})]
VARIANTS = [(method, mode, {}) for method, mode in PENALTIES] + MIGE_SCORES + CALIBRATED + RANDOM_PAIRS + TSNE
VARIANT_IDS = ["-".join([m, mode, *map(str, options.values())]) for m, mode, options in VARIANTS]


def test_every_measure_and_mode_has_a_test_case():
    assert set(METHODS) == set(MEASURES)
    assert set(MODES) == set(ALL_MODES)


def noise_for(penalty):
    return penalty.draw_noise(torch.Generator().manual_seed(5))


def replicas(n=8):
    batches = [make_batch("balanced", seed=seed) for seed in range(n)]
    return [torch.stack(column) for column in zip(*batches)]


@pytest.mark.parametrize(("method", "mode", "options"), VARIANTS, ids=VARIANT_IDS)
@pytest.mark.filterwarnings("error:There is a performance drop")
def test_vmap_equals_a_loop(method, mode, options):
    """Eight replicas, each with its own critic, control, codes, labels and noise; values and gradients.

    In the loop equal groups are fitted as a stack; under vmap their sizes are not available.
    """
    z, s, y = replicas()
    assert equal_groups(same_group(s[0])).shape == (4, 9)
    penalties = [make_penalty(method, mode, seed=seed, **options) for seed in range(len(z))]
    both = [_Both(penalty) for penalty in penalties]
    draws = [p.draw_noise(torch.Generator().manual_seed(i)) for i, p in enumerate(penalties)]
    noise = None if draws[0] is None else torch.stack(draws).double()
    parameters, buffers = stack_module_state(both)
    axes = (0, 0, 0, 0, 0, None if noise is None else 0)

    leaf = z.clone().requires_grad_()
    together, losses = vmap(lambda *batch: functional_call(both[0], batch[:2], batch[2:]), in_dims=axes)(
        parameters, buffers, leaf, s, y, noise
    )
    (gradient,) = torch.autograd.grad(together.sum(), leaf)
    for i, penalty in enumerate(penalties):
        own_noise = None if noise is None else noise[i]
        single = value_and_gradient(
            lambda leaf, p=penalty, i=i, e=own_noise: p(leaf, s[i], y[i], noise=e), z[i]
        )
        close = {"rtol": 1e-10, "atol": 1e-10}
        torch.testing.assert_close((together[i], gradient[i]), single, **close)
        torch.testing.assert_close(losses[i], penalty.critic_loss(z[i], s[i], y[i]), **close)
        for name, buffer in penalty.named_buffers():  # BEGAN's control moved in both
            torch.testing.assert_close(buffers[f"penalty.{name}"][i], buffer, **close)


class _Both(torch.nn.Module):
    """Returns the value and the critic's loss; functional_call runs nothing but forward."""

    def __init__(self, penalty):
        super().__init__()
        self.penalty = penalty

    def forward(self, z, s, y, noise):
        return self.penalty(z, s, y, noise), self.penalty.critic_loss(z.detach(), s, y)


def continuous(method, mode, dtype=torch.float64):
    z, _, y = make_batch("balanced")
    s = z[:, 0] + torch.randn(len(z), generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    z, s = z.to(dtype), s.to(dtype)
    sizes = {"n_features": N_FEATURES, "n_classes": N_CLASSES, "nuisance": "continuous"}
    return bc.make_penalty(method, mode=mode, **sizes).to(dtype), (z, s, y)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["adv", "mige", "mmd"])
def test_continuous_nuisance_under_vmap(method, mode):
    penalty, batch = continuous(method, mode)
    together = vmap(penalty)(*(torch.stack([t, t.flip(0)]) for t in batch))
    torch.testing.assert_close(together[0], penalty(*batch), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["adv", "mige", "mmd"])
@pytest.mark.parametrize(
    "kind", ["constant", "constant in class", "outlier", "one trial", "two trials", "empty"]
)
def test_no_continuous_batch_gives_nan(method, mode, kind):
    """And none an absurd value: float32 must agree with float64."""
    values = []
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        penalty, (z, s, y) = continuous(method, mode, dtype)
        s = {"constant": torch.full_like(s, 0.1), "constant in class": 30.1 + y.to(dtype)}.get(kind, s)
        if kind == "outlier":
            s = s.clone()
            s[0] = 40
        n = {"one trial": 1, "two trials": 2, "empty": 0}.get(kind, len(z))
        leaf = z[:n].clone().requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateBatchWarning)
            value = penalty(leaf, s[:n], y[:n])
            loss = penalty.critic_loss(leaf.detach(), s[:n], y[:n])
        (gradient,) = torch.autograd.grad(value, leaf)
        assert torch.isfinite(gradient).all() and torch.isfinite(loss) and loss < 100
        values.append(float(value.detach()))
    assert values[0] == pytest.approx(values[1], abs=2e-3, rel=2e-2)


@pytest.mark.parametrize("score", [*SCORES, "tsne"])
def test_subjects_far_apart_in_single_precision(score):
    """Revealing pushes subjects apart; distances within one must not drown in those between them."""
    generator = torch.Generator().manual_seed(0)
    s = torch.arange(64) % 4
    z = torch.randn(64, 6, generator=generator, dtype=torch.float64) + 3000.0 * s[:, None]
    options = {"score": "nu", "lengthscale": "tsne"} if score == "tsne" else {"score": score}
    penalty = bc.make_penalty("mige", n_subjects=4, **options)
    single, double = (
        value_and_gradient(lambda z: penalty(z, s), z.to(d))[1] for d in (torch.float32, z.dtype)
    )
    assert (single - double).norm() < 0.05 * double.norm()


# Every method, every mode and every kind of score and pairs; a graph of its own for each would take minutes.
COMPILED = [
    ("adv", "conditional", {}),
    ("began", "marginal", {}),
    ("mige", "marginal", {}),
    ("mige", "conditional", {"score": "nu", "n_steps": 3}),
    ("mmd", "complementary", {}),
    ("pairmmd", "conditional", {"pairs": "clique"}),
    ("adv", "marginal", "continuous"),
    ("mmd", "marginal", "continuous"),
]


@pytest.mark.parametrize(("method", "mode", "options"), COMPILED, ids=str)
def test_compiled_penalty_equals_eager(method, mode, options):
    """One graph without a break, for value and gradient; ``aot_eager`` traces as the default backend does."""
    torch._dynamo.reset()
    if options == "continuous":
        penalty, (z, s, y) = continuous(method, mode)
    else:
        penalty, (z, s, y) = make_penalty(method, mode, **options), make_batch("unbalanced")
    noise = noise_for(penalty)

    def value(z, s, y):
        return penalty(z, s, y, noise=noise)

    compiled = torch.compile(value, fullgraph=True, backend="aot_eager")
    eager, traced = (value_and_gradient(lambda z, f=f: f(z, s, y), z) for f in (value, compiled))
    torch.testing.assert_close(traced, eager, rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("method", "mode", "options"), VARIANTS, ids=VARIANT_IDS)
def test_gpu_equals_cpu_without_waiting(method, mode, options):
    z, s, y = make_batch("unbalanced")
    penalty = make_penalty(method, mode, **options)
    noise = noise_for(penalty)
    expected = penalty(z, s, y, noise=noise)
    on_gpu = copy.deepcopy(penalty).cuda()
    arguments = [t.cuda() for t in (z, s, y)]
    noise = None if noise is None else noise.cuda()
    on_gpu(*arguments, noise=noise)  # the first call checks the labels
    waits = options.get("score", "ssge") in ("ssge", "mige") and method == "mige"
    torch.cuda.set_sync_debug_mode("default" if waits else "error")
    try:
        value = on_gpu(*arguments, noise=noise)
        on_gpu.critic_loss(*arguments)
        on_gpu.diagnostics(*arguments)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(value.cpu(), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_pickle_and_deep_copy(method, mode):
    z, s, y = make_batch("balanced")
    penalty = make_penalty(method, mode)
    value = penalty(z, s, y)
    for twin in (pickle.loads(pickle.dumps(penalty)), copy.deepcopy(penalty)):
        torch.testing.assert_close(twin(z, s, y), value, rtol=0, atol=0)
    twin = make_penalty(method, mode, seed=1)
    twin.load_state_dict(penalty.state_dict())
    torch.testing.assert_close(twin(z, s, y), value, rtol=0, atol=0)


ODD = ("empty cells", "one subject", "one trial", "collapsed", "dead column", "half precision")


@pytest.mark.parametrize("kind", [*BATCHES, *ODD])
@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_any_batch_gives_finite_scalars_of_its_dtype(method, mode, kind):
    z, s, y = make_batch(kind if kind in BATCHES else "balanced", dtype=torch.float32)
    if kind == "empty cells":
        s, y = torch.arange(len(z)) % N_SUBJECTS, torch.arange(len(z)) % N_SUBJECTS % N_CLASSES
    if kind == "one subject":
        s = torch.zeros_like(s)
    if kind == "one trial":
        z, s, y = z[:1], s[:1], y[:1]
    if kind == "collapsed":
        z = torch.zeros_like(z)
    if kind == "dead column":
        z[:, 1] = 0
    if kind == "half precision":
        z = z.bfloat16()
    penalty = make_penalty(method, mode, dtype=torch.float32)
    z.requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateBatchWarning)
        value = penalty(z, s, y)
        loss = penalty.critic_loss(z.detach(), s, y)
        numbers = penalty.diagnostics(z, s, y)
    (gradient,) = torch.autograd.grad(value, z)
    assert gradient.abs().max() < 100  # also false for NaN
    for number in (value, loss, *numbers.values()):
        assert number.shape == () and number.dtype == torch.float32 and torch.isfinite(number)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", METHODS)
def test_degenerate_batch_is_a_differentiable_zero_and_warns_once(method, mode):
    z, s, y = make_batch("balanced")
    s = torch.zeros_like(s)
    penalty = make_penalty(method, mode)
    z.requires_grad_()
    with pytest.warns(DegenerateBatchWarning, match=r"fewer than two subjects.*penalty is zero"):
        value = penalty(z, s, y)
    assert float(value.detach()) == 0
    assert (torch.autograd.grad(value, z)[0] == 0).all()
    assert float(penalty(z[:0], s[:0], y[:0]).detach()) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        penalty(z, s, y)


def test_censored_loss_is_the_weighted_sum():
    z, s, y = make_batch("balanced")
    logits = torch.randn(len(z), N_CLASSES, dtype=z.dtype)
    task = torch.nn.CrossEntropyLoss()
    penalty = make_penalty("adv", "conditional")
    criterion = bc.CensoredLoss(task, penalty, weight=0.3)
    torch.testing.assert_close(criterion(logits, y, z, s), task(logits, y) + 0.3 * penalty(z, s, y))
    torch.testing.assert_close(criterion.critic_loss(z, s, y), penalty.critic_loss(z, s, y))
    assert len(criterion.critic_parameters()) == len(list(penalty.parameters())) > 0
    plain = bc.CensoredLoss(task, penalty, weight=0)
    assert plain(logits, y, z, s) == task(logits, y)
