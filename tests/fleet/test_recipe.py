"""Does a fleet train everything that the estimator's own recipe is made of, as the estimator does alone?"""

import numpy as np
import pytest
import torch

from braindecode_censor.fleet import train_fleet
from fleet.folds import data, folds, make, train_alone, train_together

RECIPE = {"schedule": "one_cycle", "keep": "last", "valid_subject": None, "max_epochs": None, "max_steps": 11}
RECIPE |= {"penalty": "mmd", "censoring": "conditional", "weight": 0.3, "normalize": "subject"}
CHANGES = {
    "recipe": {},
    "average": {"keep": "ema"},
    "constant": {"schedule": "constant"},
    "two who validate": {"valid_subject": [4, 5], "keep": "last"},
    "average, validated": {"valid_subject": [4, 5], "keep": "ema", "penalty": None},
    "best of two": {"valid_subject": [4, 5], "keep": "best"},
    "trial": {"normalize": "trial"},
    "euclidean": {"normalize": "euclidean"},
    "augmented": {"augment": "standard"},
    "augmented by Braindecode": {"augment": ["TimeReverse", "SignFlip"], "normalize": "euclidean"},
}

VECTORISED = ("recipe", "average", "augmented")


def assert_same(together, alone, tolerance):
    """Weights, batch statistics, losses, scores, and what the decoder says of a new person, also adapted."""
    X = data(n_subjects=1, seed=7)[0]
    assert set(together) == set(range(len(alone)))
    for k, one in enumerate(alone):
        other = together[k]
        assert other.best_epoch_ == one.best_epoch_
        np.testing.assert_allclose(other.valid_score_, one.valid_score_, atol=1e-12)
        losses = [clf.history[:, "train_loss"] for clf in (other, one)]
        np.testing.assert_allclose(*losses, rtol=1000 * tolerance)
        state = other.module_.state_dict()
        for name, tensor in one.module_.state_dict().items():
            torch.testing.assert_close(state[name], tensor, rtol=0, atol=tolerance, msg=name)
        for decode in (lambda clf: clf, lambda clf: clf.adapt(X)):
            found = [decode(clf).predict_proba(X) for clf in (other, one)]
            np.testing.assert_allclose(*found, atol=1e-5)


@pytest.mark.filterwarnings("ignore:SubjectNormalizer")
@pytest.mark.parametrize("name", CHANGES)
def test_equal_to_alone(name):
    X, y, subjects = data()
    change = CHANGES[name]
    settings = [{**RECIPE, **change, "random_state": seed, "lr": lr} for seed, lr in ((0, 3e-3), (1, 1e-2))]
    alone = train_alone(X, y, subjects, settings)
    # Alone, a batch is single precision until it enters the network, and so are the gains and the noise added to it.
    tolerance = 1e-7 if "augment" in change else 1e-8
    for vectorise in (False, True) if name in VECTORISED else (False,):
        assert_same(train_together(X, y, subjects, settings, vectorise=vectorise), alone, tolerance)


@pytest.mark.filterwarnings("ignore:SubjectNormalizer")
def test_population_statistics_are_each_members_own():
    """A fleet keeps the signals in the network's precision and scales them in the step, so rounding differs."""
    X, y, subjects = data()
    X[subjects == 1] *= 20  # member 0 does not see this person, so its population has another scale
    settings = [{**RECIPE, "normalize": "population", "random_state": seed} for seed in range(2)]
    alone = train_alone(X, y, subjects, settings)
    assert not np.allclose(alone[0].normalizer_.population_, alone[1].normalizer_.population_, rtol=0.5)
    assert_same(train_together(X, y, subjects, settings), alone, 1e-4)


def test_members_end_at_their_own_step():
    X, y, subjects = data()
    settings = [{**RECIPE, "max_steps": steps} for steps in (1, 4, 9)]
    together = train_together(X, y, subjects, settings, group_size=2)
    for k, steps in enumerate((1, 4, 9)):
        assert together[k].step_ == steps
        assert together[k].complete_


def test_a_diverged_training_is_told_without_validation():
    X, y, subjects = data()
    (member,) = train_fleet(folds(subjects, [{**RECIPE, "lr": 1e30}]), X, y, subjects)
    assert "not finite" in member.error


def test_statistics_of_half_a_person_are_refused():
    X, y, subjects = data()
    seen = np.flatnonzero(subjects != 5)[:-3]
    with pytest.raises(ValueError, match="needs all trials of every person"):
        list(train_fleet([(0, make(**RECIPE), seen)], X, y, subjects))
