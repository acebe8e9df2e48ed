"""Are people shown as strangers exactly as the normaliser would show somebody of whom nothing is known?"""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import braindecode_censor as bc
from braindecode_censor.trials.normalize import SubjectNormalizer
from braindecode_censor.trials.strangers import Strangers, estrange, stranger_maps

SHAPE = {"n_chans": 3, "n_times": 50}


def people(n_people=4, n_trials=30, seed=0):
    """Signals of people who differ in offsets, gains and mixing."""
    rng = np.random.default_rng(seed)
    subjects = np.repeat(np.arange(n_people) + 1, n_trials)
    X = rng.normal(size=(len(subjects), SHAPE["n_chans"], SHAPE["n_times"]))
    for person in np.unique(subjects):
        mixing = np.eye(SHAPE["n_chans"]) + 0.5 * rng.normal(size=(SHAPE["n_chans"], SHAPE["n_chans"]))
        X[subjects == person] = mixing @ X[subjects == person] + rng.normal(size=(SHAPE["n_chans"], 1))
    return X, subjects


def as_stranger(normalizer, x, person):
    """Map one person's normalised trials."""
    found = stranger_maps(normalizer)[np.searchsorted(normalizer.subjects_, person)]
    return found[:, 1:] @ x + found[:, :1]


@pytest.mark.filterwarnings("ignore:SubjectNormalizer")
@pytest.mark.parametrize("how", ["person", "euclidean"])
@pytest.mark.parametrize("constant", [False, True])
def test_a_stranger_is_what_transform_makes_of_somebody_unknown(how, constant):
    X, subjects = people()
    if constant:
        X[subjects == 2, 1] = 7 if how == "person" else 0
    normalizer = SubjectNormalizer(how)
    own = normalizer.fit_transform(X, subjects=subjects)
    for person in (1, 2):
        mine = subjects == person
        assert not np.allclose(own[mine], normalizer.transform(X[mine]), atol=0.1)
        np.testing.assert_allclose(
            as_stranger(normalizer, own[mine], person), normalizer.transform(X[mine]), atol=1e-8
        )


def test_a_third_each_by_seed_and_step():
    X, subjects = people(n_trials=300)
    normalizer = SubjectNormalizer("euclidean")
    own = torch.as_tensor(normalizer.fit_transform(X, subjects=subjects))
    positions = torch.arange(len(own))
    far = torch.stack([torch.as_tensor(as_stranger(normalizer, x.numpy(), s)) for x, s in zip(own, subjects)])

    def shares(seed, step):
        changed = Strangers(normalizer, subjects, seed).apply(own, positions, step)
        options = torch.stack([own, (own + far) / 2, far])
        distance = (options - changed).abs().amax(dim=(2, 3))
        assert (distance.min(dim=0).values < 1e-10).all()
        return distance.argmin(dim=0)

    found = shares(0, 0)
    counts = np.bincount(found.numpy(), minlength=3)
    assert (abs(counts - 400) < 60).all()  # 1200 trials, a standard deviation of 16
    assert torch.equal(found, shares(0, 0))
    assert not torch.equal(found, shares(1, 0))
    assert not torch.equal(found, shares(0, 1))


def test_members_have_their_own_populations():
    X, subjects = people()
    X[subjects == 4] *= 50
    everybody, some = SubjectNormalizer("person"), SubjectNormalizer("person")
    x = torch.as_tensor(everybody.fit_transform(X, subjects=subjects)[:6])
    some.fit(X[subjects < 4], subjects=subjects[subjects < 4])
    padded = np.zeros((4, 3, 4))
    padded[:3] = stranger_maps(some)
    maps = torch.as_tensor(np.stack([stranger_maps(everybody), padded]))
    numbers = torch.tensor([5, 5]), torch.tensor([1, 1])
    both = estrange(torch.stack([x, x]), maps, torch.zeros(2, 6, dtype=torch.int64), *numbers)
    for k, normalizer in enumerate((everybody, some)):
        alone = Strangers(normalizer, np.ones(6, dtype=int), 5).apply(x, torch.arange(6), 1)
        torch.testing.assert_close(both[k], alone, rtol=0, atol=1e-12)
    assert not torch.allclose(both[0], both[1])


def make(**options):
    """A short training that validates on nobody."""
    return bc.CensoredEEGClassifier(**{"penalty": None, "max_steps": 8, "strangers": True, **options})


def test_people_who_validate_have_no_part_in_it():
    """Whatever their signals are, the training stays the same."""
    X, subjects = people()
    y = np.tile([0, 1], len(X) // 2)
    trained = []
    for gain in (1, 100):
        changed = np.where((subjects == 4)[:, None, None], gain * X, X).astype(np.float32)
        clf = make(valid_subject=4).fit(changed, y, subjects=subjects)
        trained.append(clf.module_.state_dict())
    assert all(torch.equal(trained[0][name], tensor) for name, tensor in trained[1].items())


def test_training_meets_strangers_and_forgets_the_trials():
    X, subjects = people()
    y = np.tile([0, 1], len(X) // 2)
    with_them, without = (make(strangers=s).fit(X, y, subjects=subjects) for s in (True, False))
    assert with_them.strangers_ is None
    states = [clf.module_.state_dict() for clf in (with_them, without)]
    assert any(not torch.equal(states[0][name], tensor) for name, tensor in states[1].items())
    again = make().fit(X, y, subjects=subjects).module_.state_dict()
    assert all(torch.equal(states[0][name], tensor) for name, tensor in again.items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalize": "trial"}, "strangers=True and normalize='trial'.* pass normalize='person'"),
        ({"normalize": "population"}, "strangers=True and normalize='population'"),
        ({"iterator_train": DataLoader}, "strangers=True needs the estimator's own loader"),
        ({"iterator_train__num_workers": 1}, "strangers=True needs the estimator's own loader"),
    ],
)
def test_messages(options, message):
    X, subjects = people()
    with pytest.raises(ValueError, match=message):
        make(**options).fit(X, np.tile([0, 1], len(X) // 2), subjects=subjects)
