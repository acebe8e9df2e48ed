"""Every method and mode against loops as in the paper, on balanced and unbalanced batches."""

import literal
import pytest
import torch
from cases import BATCHES, MODES, PENALTIES, critics, make_batch, make_penalty, value_and_gradient

import braindecode_censor as bc
from braindecode_censor.penalties.measures.contrasts import CliquePairs

TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}


SCORES = [("mige", mode, {"score": score}) for mode in MODES for score in ("ssge", "tikhonov", "stein", "nu")]
VARIANTS = [(method, mode, {}) for method, mode in PENALTIES] + SCORES
VARIANT_IDS = ["-".join([m, mode, *options.values()]) for m, mode, options in VARIANTS]


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize(("method", "mode", "options"), VARIANTS, ids=VARIANT_IDS)
def test_penalty_equals_loops(method, mode, options, kind):
    z, s, y = make_batch(kind)
    penalty = make_penalty(method, mode, **options)
    result = value_and_gradient(lambda z: penalty(z, s, y), z)
    loops = lambda z: literal.penalty(method, mode, z, s, y, critics(penalty), **options)  # noqa: E731
    torch.testing.assert_close(result, value_and_gradient(loops, z), **TOLERANCE)
    assert result[1].abs().max() > 1e-4, "a gradient of zero would make this comparison empty"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", BATCHES)
def test_adversary_loss_is_the_cross_entropy_of_each_critic(kind, mode):
    """The critic minimises cross-entropy, that is, maximises the bound; in complementary mode each its own."""
    z, s, y = make_batch(kind)
    penalty = make_penalty("adv", mode)
    loss = penalty.critic_loss(z, s, y)
    halves = (z[:, :3], z[:, 3:]) if mode == "complementary" else (z,)
    label = y if mode == "conditional" else None
    expected = 0
    for half, critic in zip(halves, critics(penalty)):
        for c in literal.classes(label):
            rows = literal.rows_of(s, label, None, c)
            labels = () if label is None else (y[rows],)
            losses = torch.nn.functional.cross_entropy(critic(half[rows], *labels), s[rows])
            expected = expected + losses / len(literal.classes(label))
    torch.testing.assert_close(loss, expected, **TOLERANCE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", BATCHES)
def test_began_loss_and_control_equal_loops(kind, mode):
    z, s, y = make_batch(kind)
    penalty = make_penalty("began", mode, beta=0.3, gamma=0.9)
    label = y if mode == "conditional" else None
    halves = (z[:, :3], z[:, 3:]) if mode == "complementary" else (z,)
    controls = [measure.k for measure in penalty.measures]
    before = [control.uniform_(0.2, 0.6).clone() for control in controls]
    loss = penalty.critic_loss(z, s, y)

    expected = 0
    for half, critic, k, moved in zip(halves, critics(penalty), before, controls):
        expected = expected + literal.began_critic(half, s, label, critic=critic, k=k)
        steps = {}
        for cell in literal.began_losses(half, s, label, critic):
            for m, all_rows, own in cell:
                steps.setdefault(m, []).append((0.9 * all_rows - own).item())
        for m in range(len(k)):
            step = 0.3 * sum(steps.get(m, [0])) / len(steps.get(m, [0]))
            assert float(moved[m]) == pytest.approx(min(max(float(k[m]) + step, 0), 1), abs=1e-10)
    assert len(controls) == len(halves)
    torch.testing.assert_close(loss, expected, **TOLERANCE)
    before = [control.clone() for control in controls]
    penalty.eval().critic_loss(z, s, y)
    assert all(map(torch.equal, before, controls)), "it moves in training only"


@pytest.mark.parametrize(
    "options", [{"pairs": "bernoulli"}, {"pairs": "clique", "size": 2}, {"pairs": CliquePairs(2)}]
)
def test_random_pairs_equal_loops_over_the_drawn_pairs(options):
    """The penalty is the mean of the unbiased MMD over exactly the pairs that the noise selects."""
    z, s, y = make_batch("missing subject")
    present = [0, 1, 3]
    penalty = make_penalty("pairmmd", "marginal", **options)
    sigma = literal.median_scale(z)
    draws, state = set(), torch.get_rng_state()
    for seed in range(12):
        noise = penalty.draw_noise(torch.Generator().manual_seed(seed)).double()
        if options["pairs"] == "bernoulli":
            pairs_drawn = [(r, t) for r in present for t in present if r < t and noise[r, t] <= 0.5]
        else:
            pairs_drawn = [tuple(sorted(sorted(present, key=lambda m: float(noise[m]))[:2]))]
        values = []
        for r, t in pairs_drawn:
            a, b = literal.rows_of(s, y, r, None), literal.rows_of(s, y, t, None)
            values.append(literal.mmd_squared(z[a], z[b], a, b, sigma))
        expected = literal.mean_of(values, torch.zeros((), dtype=z.dtype))
        torch.testing.assert_close(penalty(z, s, y, noise=noise), expected, **TOLERANCE)
        draws.add(tuple(pairs_drawn))
    assert len(draws) > 2, "the draws must differ"
    assert torch.equal(torch.get_rng_state(), state)
    first = penalty(z, s)
    torch.set_rng_state(state)
    assert penalty(z, s) == first


def test_sum_reduction_adds_as_the_listings_do():
    z, s, y = make_batch("balanced")
    factors = [("mmd", "marginal", 4), ("mmd", "conditional", 12), ("pairmmd", "marginal", 6)]
    factors += [("pairmmd", "conditional", 18), ("adv", "marginal", len(z)), ("adv", "conditional", 3)]
    for method, mode, n_terms in [*factors, ("mige", "conditional", 3), ("began", "conditional", 3)]:
        total = make_penalty(method, mode, reduction="sum")(z, s, y)
        torch.testing.assert_close(total, n_terms * make_penalty(method, mode)(z, s, y))


def test_printed_self_pairs_equal_the_printed_sum():
    """Eq. (MMD) between the batch and its own subset, with every pair in the cross term."""
    z, s, _ = make_batch("unbalanced")
    sigma = literal.median_scale(z)
    all_rows = list(range(len(z)))
    values = []
    for m in range(4):
        own = literal.rows_of(s, None, m, None)
        fake = [-1 - i for i in own]  # other indices, so that no pair counts as a self-pair
        values.append(literal.mmd_squared(z[all_rows], z[own], all_rows, fake, sigma))
    torch.testing.assert_close(make_penalty("mmd", "marginal", self_pairs=True)(z, s), sum(values) / 4)


def test_uniform_subject_weights_are_the_listing_on_unbalanced_batches():
    z, s, y = make_batch("unbalanced")
    penalty = make_penalty("mige", "marginal", score="tikhonov", subject_weights="uniform")
    expected = -(literal.SCORES["tikhonov"](z) * z).sum(-1).mean()
    for m in range(4):
        own = z[s == m]
        expected = expected + (literal.SCORES["tikhonov"](own) * own).sum(-1).mean() / 4
    torch.testing.assert_close(penalty(z, s), expected, **TOLERANCE)
    balanced, s, _ = make_batch("balanced")
    frequency = make_penalty("mige", "marginal", score="tikhonov")
    torch.testing.assert_close(penalty(balanced, s), frequency(balanced, s), **TOLERANCE)


@pytest.mark.parametrize("mode", ["marginal", "conditional"])
@pytest.mark.parametrize("method", ["mmd", "pairmmd"])
def test_hundreds_of_absent_subjects_change_nothing(method, mode):
    """Neither the value nor the gradient knows how many subjects there are beside those of the batch."""
    torch.manual_seed(0)
    z, y = torch.randn(24, 4, dtype=torch.float64, requires_grad=True), torch.arange(24) % 2
    s = torch.arange(24) // 2 % 3
    few, many = (bc.make_penalty(method, mode=mode, n_subjects=n, n_classes=2) for n in (3, 400))
    values = few(z, s, y), many(z, torch.tensor([350, 7, 90])[s], y)
    torch.testing.assert_close(*values)
    assert values[0].abs() > 1e-3
    torch.testing.assert_close(*(torch.autograd.grad(value, z)[0] for value in values))
