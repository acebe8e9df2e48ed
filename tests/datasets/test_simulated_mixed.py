"""Subjects who differ only by gain and mixing: known best accuracy, and alignment that undoes the difference."""

import numpy as np
import pytest

from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.datasets.simulated_mixed import mixing_matrix
from braindecode_censor.trials.normalizations import normalize_subjects
from studies import linear_reference as linear


def averages(X):
    """Return what a linear model can use: averages of eight samples, in the units of the signal."""
    return X.reshape(*X.shape[:2], -1, 8).mean(axis=-1).reshape(len(X), -1)


def transfer(dataset, how):
    """Return the accuracy on held-out subjects, each normalised by its own statistics."""
    X, y, subjects = dataset.arrays()
    return linear.across(averages(normalize_subjects(X, subjects, how)), y, subjects)


@pytest.mark.parametrize("snr", [0.3, 0.6])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_closed_form_is_the_accuracy_of_the_likelihood(snr, n_classes):
    model = SimulatedSubjects(2, 20, kind="mixed", snr=snr, n_classes=n_classes).model(1)
    y = np.repeat(np.arange(n_classes), 2000 // n_classes)
    X = model.sample(y, np.random.default_rng(1))
    accuracy = np.mean(model.log_likelihood(X).argmax(axis=1) == y)
    error = np.sqrt(accuracy * (1 - accuracy) / len(y))
    assert model.bayes_accuracy() == pytest.approx(accuracy, abs=3.5 * error)
    assert 1 / n_classes + 0.1 < accuracy < 0.99


def test_two_classes_are_the_textbooks_case():
    """Two orthogonal means of norm d lie sqrt(2) d apart, so the accuracy is Phi(d / sqrt(2))."""
    from scipy.stats import norm

    model = SimulatedSubjects(1, 20, kind="mixed", snr=0.4, n_classes=2).model(1)
    d = np.sqrt(model.energy(model.means[0]))
    assert model.bayes_accuracy() == pytest.approx(norm.cdf(d / np.sqrt(2)), abs=1e-8)


def test_all_subjects_and_seeds_have_one_best_accuracy():
    models = [SimulatedSubjects(3, 20, kind="mixed", seed=seed).model(k) for seed in (0, 1) for k in (1, 2)]
    assert np.ptp([model.bayes_accuracy() for model in models]) < 1e-9
    assert np.ptp([model.covariance[0, 0] for model in models]) > 10


def test_mixing_is_symmetric_and_positive_and_gains_alone_are_diagonal():
    dataset = SimulatedSubjects(2, 20, kind="mixed", shift=1.5)
    M = mixing_matrix(dataset.design, dataset.parameters(1))
    np.testing.assert_allclose(M, M.T)
    assert np.linalg.eigvalsh(M).min() > 0
    gains = SimulatedSubjects(2, 20, kind="mixed", effects={"mixing": 0.0})
    M = mixing_matrix(gains.design, gains.parameters(1))
    np.testing.assert_allclose(M, np.diag(np.diag(M)))
    assert np.log(np.diag(M)).std() > 0.1


def test_subjects_who_are_alike_have_nothing_to_gain():
    dataset = SimulatedSubjects(6, 60, kind="mixed", preset="alike")
    assert all(np.array_equal(dataset.model(1).means, dataset.model(k).means) for k in (2, 3))
    plain, aligned = transfer(dataset, "none"), transfer(dataset, "euclidean")
    assert plain > 0.85
    assert aligned < plain + 0.03


def test_alignment_gives_back_what_mixing_took():
    dataset = SimulatedSubjects(8, 80, kind="mixed")
    score = {how: transfer(dataset, how) for how in ("none", "subject", "euclidean")}
    assert score["none"] < score["subject"] - 0.05
    assert score["subject"] < score["euclidean"] - 0.05
    assert score["none"] < 0.7
    assert 0.85 < score["euclidean"] < dataset.oracle_accuracy() < 1


def test_gains_alone_are_undone_channel_by_channel():
    dataset = SimulatedSubjects(8, 80, kind="mixed", effects={"mixing": 0.0})
    score = {how: transfer(dataset, how) for how in ("none", "subject", "euclidean")}
    assert score["none"] < score["subject"] - 0.05
    assert score["subject"] == pytest.approx(score["euclidean"], abs=0.04)
