"""Critics learn the quantities that their penalties assume."""

import math

import pytest
import torch
from cases import information, two_subjects

import braindecode_censor as bc
from braindecode_censor.penalties.batch import Batch
from braindecode_censor.penalties.measures import BEGAN


def train(penalty, draw, steps, lr=2e-3):
    """Train the critics on fresh batches; return the mean loss of the last fifth."""
    optimiser = torch.optim.Adam(penalty.critic_parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    losses = []
    for step in range(steps):
        optimiser.zero_grad()
        loss = penalty.critic_loss(*draw(step))
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(float(loss.detach()))
    return sum(losses[-steps // 5 :]) / len(losses[-steps // 5 :])


@pytest.mark.parametrize("a", [0.5, 1.5])
def test_adversary_finds_the_conditional_entropy(a):
    """Trained to convergence, its cross-entropy is H(s|z) = ln 2 - I(a) and its penalty the information."""
    penalty = bc.make_penalty("adv", n_features=4, n_subjects=2, hidden=32, n_layers=2)

    def draw(step):
        z, s, _ = two_subjects(a, seed=step, n=512)
        return z.float(), s

    train(penalty, draw, steps=150, lr=1e-2)
    with torch.no_grad():
        fresh = [penalty.critic_loss(*draw(10_000 + i)) for i in range(20)]
        bound = [penalty(*draw(20_000 + i)) for i in range(20)]
    exact, _ = information(a)
    assert float(torch.stack(fresh).mean()) == pytest.approx(math.log(2) - exact, abs=0.02)
    assert float(torch.stack(bound).mean()) == pytest.approx(exact, abs=0.02)


def test_conditional_adversary_sees_the_class():
    """s = y xor (z > 0) is visible from z only together with y: H(s|z, y) = 0 but H(s|z) = ln 2."""

    def draw(step):
        generator = torch.Generator().manual_seed(step)
        z = torch.randn(512, 2, generator=generator)
        y = torch.randint(0, 2, (512,), generator=generator)
        return z, (y + (z[:, 0] > 0)) % 2, y

    sizes = {"n_features": 2, "n_subjects": 2, "n_classes": 2, "hidden": 32, "n_layers": 2}
    conditional = train(bc.make_penalty("adv", mode="conditional", **sizes), draw, 120, lr=1e-2)
    marginal = train(bc.make_penalty("adv", mode="marginal", **sizes), draw, 120, lr=1e-2)
    assert conditional < 0.1
    assert marginal > 0.65


def test_continuous_adversary_finds_the_gaussian_information():
    """s and z jointly normal with correlation r: I = -log(1 - r^2) / 2."""
    penalty = bc.make_penalty("adv", n_features=1, nuisance="continuous", hidden=32, n_layers=2)
    r = 0.8

    def draw(step):
        z, noise = torch.randn(2, 512, 1, generator=torch.Generator().manual_seed(step))
        return z, 30 + 12 * (r * z + math.sqrt(1 - r**2) * noise)

    train(penalty, draw, steps=120, lr=1e-2)
    with torch.no_grad():
        bound = torch.stack([penalty(*draw(10_000 + i)) for i in range(20)]).mean()
    assert float(bound) == pytest.approx(-0.5 * math.log(1 - r**2), abs=0.04)


def began_divergence(shift, steps=150, **options):
    penalty = bc.make_penalty("began", n_features=4, n_subjects=2, hidden=32, **options)

    def draw(step):
        generator = torch.Generator().manual_seed(step)
        s = torch.arange(256) % 2
        return torch.randn(256, 4, generator=generator) + shift * (2 * s[:, None] - 1), s

    train(penalty, draw, steps, lr=5e-3)
    with torch.no_grad():
        results = [penalty.diagnostics(*draw(10_000 + i))["divergence"] for i in range(20)]
    return float(torch.stack(results).mean()), penalty.measures[0].k


def test_began_separates_shifted_subjects_and_not_identical_ones():
    shifted, k = began_divergence(1.5, beta=0.05)
    identical, _ = began_divergence(0.0, beta=0.05)
    assert shifted > 0.05
    assert abs(identical) < 0.03
    assert ((k > 0) & (k <= 1)).all()


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_began_with_a_diversity_of_one_or_less_does_not_discriminate(gamma):
    """The subject is part of the batch: its error never falls below a fraction of the batch's."""
    divergence, k = began_divergence(1.5, steps=100, gamma=gamma)
    assert k.max() < 0.05
    assert abs(divergence) < 0.02


def test_began_control_stays_where_the_discriminator_cannot_run_away():
    z, s = torch.randn(64, 4), torch.arange(64) % 4
    for gamma, limit in ((50.0, 0.02), (1e-6, 0.0)):
        measure = BEGAN(4, 4, gamma=gamma, beta=0.5)
        for _ in range(20):
            measure.critic_loss(z, Batch(s, n_subjects=4))
            assert ((measure.k >= 0) & (measure.k <= 0.02)).all()
        torch.testing.assert_close(measure.k, torch.full((4,), limit))


def test_began_errors_stay_small_in_a_long_training():
    """With the control clipped at one they are beyond 20 here, and still growing."""
    generator = torch.Generator().manual_seed(0)
    means, s = torch.randn(4, 8, generator=generator), torch.arange(32) % 4
    penalty = bc.make_penalty("began", n_features=8, n_subjects=4, hidden=64, beta=0.05)

    def draw(step):
        return means[s] + torch.randn(32, 8, generator=generator), s

    errors = []
    for _ in range(5):
        train(penalty, draw, 60)
        batch = draw(0)
        errors.append(float(penalty(*batch).detach()))
    batch_error = errors[-1] - float(penalty.diagnostics(*batch)["divergence"])
    assert max(errors) < 4
    assert errors[-1] / batch_error == pytest.approx(1.5, abs=0.3)


def test_printed_began_is_degenerate():
    """On balanced batches L_p(z|s) *is* L_p(z), for any discriminator and however different the subjects."""
    s = torch.arange(64) % 4
    z = torch.randn(64, 6) + 3 * s[:, None]
    printed = BEGAN(6, 4, printed=True)
    batch = Batch(s, n_subjects=4)
    error = (z - printed.critic(z)).abs().mean().detach()
    torch.testing.assert_close(printed.censor(z, batch), error)
    torch.testing.assert_close(
        printed.diagnostics(z, batch)["divergence"], torch.zeros(()), atol=1e-5, rtol=0
    )
    # so the control can only fall, and the discriminator only reconstructs
    printed.k.fill_(0.5)
    before = float(printed.k)
    loss = printed.critic_loss(z, batch)
    assert float(printed.k) < before
    torch.testing.assert_close(loss, (1 - before) * error)
    printed.k.fill_(0.25)
    torch.testing.assert_close(printed.reveal(z, batch), 0.75 * error)
    # and the encoder wins by shrinking z, which standardisation prevents
    small = printed.censor(1e-3 * z, batch) / printed.censor(z, batch)
    conditioned = BEGAN(6, 4)
    same = conditioned.censor(1e-3 * z, batch) / conditioned.censor(z, batch)
    assert small < 0.1
    assert float(same) == pytest.approx(1, abs=1e-2)
