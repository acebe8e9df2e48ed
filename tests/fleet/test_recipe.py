"""Options of the estimator's training recipe: a fleet trains them as the estimator does."""

import numpy as np
import pytest

from braindecode_censor.fleet import train_fleet
from fleet.folds import assert_equal, data, fit_each, fit_fleet, make

RECIPE = {"schedule": "one_cycle", "keep": "last", "valid_subject": None, "max_epochs": None, "max_steps": 7}
RECIPE |= {"penalty": "mmd", "censoring": "conditional", "weight": 0.3, "normalize": "subject"}
CHANGES = {
    "recipe": {},
    "average": {"keep": "ema", "normalize": "trial"},
    "constant": {"schedule": "constant"},
    "two validation subjects": {"valid_subject": [4, 5], "keep": "last"},
    "average, validated": {"valid_subject": [4, 5], "keep": "ema", "penalty": None},
    "best of two": {"valid_subject": [4, 5], "keep": "best"},
    "augmented": {"augment": "standard"},
    "augmented by Braindecode": {"augment": ["TimeReverse", "SignFlip"], "normalize": "euclidean"},
}


def assert_same(fleet, singles, tolerance):
    """Compare the trainings, and the predictions for a new subject, also adapted."""
    assert_equal(fleet, singles, tolerance)
    X = data(n_subjects=1, n_trials=8, seed=7)[0]
    for k, single in enumerate(singles):
        for decode in (lambda clf: clf, lambda clf: clf.adapt(X)):
            probabilities = [decode(clf).predict_proba(X) for clf in (fleet[k], single)]
            np.testing.assert_allclose(*probabilities, atol=1e-5)


@pytest.mark.filterwarnings("ignore:SubjectNormalizer")
@pytest.mark.parametrize("name", CHANGES)
def test_recipe_equals_single_training(name):
    X, y, subjects = data()
    change, own = CHANGES[name], ({"lr": 3e-3}, {"random_state": 1, "lr": 1e-2, "max_steps": 4})
    settings = [{**RECIPE, **change, "random_state": 0, **each} for each in own]
    # In a single training a batch has single precision before the network, and so have gains and noise.
    tolerance = 1e-7 if "augment" in change else 1e-8
    assert_same(fit_fleet(X, y, subjects, settings), fit_each(X, y, subjects, settings), tolerance)


@pytest.mark.filterwarnings("ignore:SubjectNormalizer")
def test_population_statistics_differ_between_replicas():
    """A fleet scales signals in the step, in the precision of the network, so rounding differs."""
    X, y, subjects = data()
    X[subjects == 1, :1] *= 20  # Replica 0 does not see this subject, so its population has another shape.
    settings = [{**RECIPE, "normalize": "population", "random_state": seed} for seed in range(2)]
    singles = fit_each(X, y, subjects, settings)
    scales = [np.diagonal(clf.normalizer_.affine.weight) for clf in singles]
    assert not np.allclose(*scales, rtol=0.5)
    assert_same(fit_fleet(X, y, subjects, settings), singles, 1e-4)


def test_statistics_of_half_a_subject_are_refused():
    X, y, subjects = data()
    train_idx = np.flatnonzero(subjects != 5)[:-3]
    with pytest.raises(ValueError, match="needs all trials of every source subject"):
        list(train_fleet([(0, make(**RECIPE), train_idx)], X, y, subjects))
