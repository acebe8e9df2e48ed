"""After a short training a fresh probe decodes the subject worse, and the task is decoded as before.

Every method and mode trains a small encoder on four subjects whose data differ by a shift that also touches a
class feature. The probe is scikit-learn's, has never seen the training, and is judged by cross-validation.
"""

import functools

import numpy as np
import pytest
import torch
from cases import IDS, PENALTIES
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import braindecode_censor as bc

N_SUBJECTS, N_CLASSES, N_FEATURES, CHANCE = 4, 2, 8, 0.25
WEIGHTS = {"adv": 1.0, "mige": 1.0, "mmd": 3.0, "pairmmd": 3.0, "began": 1.0}
# Not calibrated, the force that scales z is so large here that rounding decides how a training ends.
OPTIONS = {"mige": {"calibrate": True}}


def draw(n, generator):
    """Ten noisy features: two tell the class, three the subject, one of them both."""
    s = torch.randint(0, N_SUBJECTS, (n,), generator=generator)
    y = torch.randint(0, N_CLASSES, (n,), generator=generator)
    x = torch.randn(n, 10, generator=generator)
    angle = 2 * torch.pi * s / N_SUBJECTS
    x[:, 0] += 2.0 * (2 * y - 1)
    x[:, 1] += 1.0 * (2 * y - 1) + 1.5 * torch.cos(angle)
    x[:, 2] += 2.0 * torch.cos(angle)
    x[:, 3] += 2.0 * torch.sin(angle)
    return x, s, y


def train(penalty, weight, steps=80, seed=0):
    """Train encoder and classifier (and critic); return a fresh sample's code, labels and accuracy."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    encoder = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ELU(), torch.nn.Linear(32, N_FEATURES))
    classifier = torch.nn.Linear(N_FEATURES, N_CLASSES)
    criterion = bc.CensoredLoss(torch.nn.CrossEntropyLoss(), penalty, weight)
    optimiser = torch.optim.AdamW([*encoder.parameters(), *classifier.parameters()], lr=1e-2)
    critic = torch.optim.AdamW(penalty.critic_parameters(), lr=1e-2) if penalty.has_critic else None
    for _ in range(steps):
        x, s, y = draw(64, generator)
        z = encoder(x)
        if critic is not None:
            critic.zero_grad()
            criterion.critic_loss(z, s, y).backward()
            critic.step()
        optimiser.zero_grad()
        criterion(classifier(z), y, z, s).backward()
        optimiser.step()
    x, s, y = draw(500, torch.Generator().manual_seed(1000 + seed))
    with torch.no_grad():
        z = encoder(x)
        accuracy = (classifier(z).argmax(1) == y).float().mean().item()
    return z.numpy(), s.numpy(), y.numpy(), accuracy


def probe(z, s):
    """Cross-validated accuracy of a kernel machine that reads the subject from the code."""
    z = (z - z.mean(0)) / (z.std(0) + 1e-9)
    return cross_val_score(SVC(), z, s, cv=3).mean()


def reading(part, z, s, y):
    half = N_FEATURES // 2
    if part == "within class":
        return np.mean([probe(z[y == c], s[y == c]) for c in range(N_CLASSES)])
    return probe({"all": z, "half 1": z[:, :half], "half 2": z[:, half:]}[part], s)


def make(method, mode):
    with torch.random.fork_rng():
        torch.manual_seed(7)
        sizes = {"n_features": N_FEATURES, "n_subjects": N_SUBJECTS, "n_classes": N_CLASSES}
        return bc.make_penalty(method, mode=mode, **sizes, **OPTIONS.get(method, {}))


@functools.cache
def plain():
    *code, accuracy = train(make("mmd", "marginal"), weight=0)
    return {part: reading(part, *code) for part in ("all", "within class", "half 1", "half 2")}, accuracy


def leak(code, mode):
    """The excess over chance that the mode is to remove, as a share of plain training's."""
    part = {"marginal": "all", "conditional": "within class", "complementary": "half 1"}[mode]
    return (reading(part, *code) - CHANCE) / (plain()[0][part] - CHANCE)


def test_plain_training_leaks():
    """Otherwise there is nothing to remove and the tests below are empty."""
    readings, accuracy = plain()
    assert accuracy > 0.95
    assert min(readings.values()) > 0.5


@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_censoring_hides_the_subject_and_keeps_the_task(method, mode):
    *code, accuracy = train(make(method, mode), WEIGHTS[method])
    assert leak(code, mode) < 0.6
    assert accuracy > plain()[1] - 0.05
    if mode == "complementary":
        revealed = reading("half 2", *code)
        assert revealed > plain()[0]["half 2"] + 0.05
        assert revealed > reading("half 1", *code) + 0.2


@pytest.mark.parametrize("method", WEIGHTS)
def test_opposite_sign_reveals_the_subject(method):
    *code, _ = train(make(method, "marginal"), -WEIGHTS[method], steps=50)
    assert leak(code, "marginal") > 1.0
