"""Teaching: the offset, the regressions' leave-one-out answers, proportions and known labels, by known answers."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from braindecode_censor.decoder import regression
from braindecode_censor.decoder.regression import kernel_of, moments, regress, standardise
from braindecode_censor.decoder.teaching import (
    answer,
    estimate_proportions,
    find_offset,
    learn_weights,
    log_probabilities,
    teach,
)


def block(n_trials=60, n_classes=3, n_features=40, seed=0, share=None):
    """Return log-probabilities of an uncertain decoder, features in which classes lie apart, and classes."""
    rng = np.random.default_rng(seed)
    y = rng.choice(n_classes, n_trials, p=share)
    logs = log_softmax(rng.normal(size=(n_trials, n_classes)) + 1.0 * np.eye(n_classes)[y], axis=1)
    vectors = rng.normal(size=(n_trials, n_features))
    vectors[:, : 3 * n_classes] += 1.5 * np.eye(n_classes)[y].repeat(3, axis=1)
    return logs, vectors, y


@pytest.mark.parametrize("proportions", [[1 / 3, 1 / 3, 1 / 3], [0.6, 0.3, 0.1]])
def test_offset_gives_the_block_the_proportions(proportions):
    logs, _, _ = block()
    proportions = np.array(proportions)
    offset = find_offset(logs, proportions)
    assert offset.sum() == pytest.approx(0)
    share = softmax(logs + np.log(proportions) + offset, axis=1).mean(axis=0)
    np.testing.assert_allclose(share, proportions, atol=1e-6)


def test_offset_undoes_a_decoder_that_prefers_a_class():
    logs, _, y = block(2000)
    offset = find_offset(logs + np.array([1.5, 0, -0.5]), np.bincount(y) / len(y))
    np.testing.assert_allclose(offset - offset[1], [-1.5, 0, 0.5], atol=0.15)


def test_leave_one_out_answers_are_those_of_refitting():
    logs, vectors, _ = block(25)
    kernel, labels = kernel_of(vectors), softmax(2 * logs, axis=1)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, 25)
    fitted = regress(kernel, labels, weights)
    ridge = _ridge_of(fitted, kernel, labels, weights)
    for i in range(25):
        keep = np.arange(25) != i
        inner = kernel[np.ix_(keep, keep)] + 1
        dual = np.linalg.solve(inner + np.diag(ridge / weights[keep]), labels[keep])
        refit = log_softmax(fitted.sharpness * (kernel[i, keep] + 1) @ dual)
        np.testing.assert_allclose(fitted.log_q[i], refit, atol=1e-8)


def _ridge_of(fitted, kernel, labels, weights):
    """Return the ridge of the grid that gives a regression's dual coefficients."""
    duals = {
        ridge: np.linalg.solve(kernel + 1 + np.diag(ridge / weights), labels) for ridge in regression._RIDGES
    }
    ridge, dual = min(duals.items(), key=lambda item: np.abs(item[1] - fitted.dual).max())
    np.testing.assert_allclose(fitted.dual, dual, atol=1e-8)
    return ridge


def test_views_in_which_classes_lie_apart_help():
    logs, vectors, y = block(120)
    lesson = teach(logs, [kernel_of(vectors)], np.full(3, 1 / 3))
    accuracy = (lesson.regressions[0].log_q.argmax(axis=1) == y).mean()
    assert accuracy > (logs.argmax(axis=1) == y).mean() + 0.1
    noise = teach(logs, [kernel_of(np.random.default_rng(5).normal(size=(120, 40)))], np.full(3, 1 / 3))
    assert noise.regressions[0].log_q.max() < -0.5  # hardly more than a guess
    weights = learn_weights(np.concatenate([lesson.terms, noise.terms[2:]]), y, np.zeros(120))
    assert weights[2] > 0.3 > 0.1 > weights[3]


def test_trials_outside_the_block_are_answered_by_the_regressions():
    logs, vectors, y = block(200)
    first, centre_scale = np.arange(200) < 100, moments(vectors[:100])
    z = standardise(vectors, *centre_scale)
    lesson = teach(logs[first], [z[first] @ z[first].T], np.full(3, 1 / 3))
    log_q = lesson.regressions[0].log_q_of(z[~first] @ z[first].T)
    assert (log_q.argmax(axis=1) == y[~first]).mean() > (logs[~first].argmax(axis=1) == y[~first]).mean()
    function = lesson.functions([vectors[:100]])[0]
    np.testing.assert_allclose(function.log_q(vectors[100:]), log_q, atol=1e-9)


def test_known_labels_replace_soft_ones():
    logs, vectors, y = block(90)
    kernel, proportions = kernel_of(vectors), np.full(3, 1 / 3)
    some = np.where(np.arange(90) < 30, y, -1)
    unknown, partly, known = (teach(logs, [kernel], proportions, labels) for labels in (None, some, y))
    scores = [(lesson.terms[2].argmax(axis=1) == y).mean() for lesson in (unknown, partly, known)]
    assert scores[0] < scores[1] < scores[2]
    assert not known.offset.any()
    wrong = teach(logs, [kernel], proportions, (y + 1) % 3)
    assert (wrong.terms[2].argmax(axis=1) == y).mean() < 0.2


def test_estimated_proportions_and_a_prior_of_one_trial_per_class():
    rng = np.random.default_rng(0)
    y = rng.choice(3, 1000, p=[0.8, 0.15, 0.05])
    evidence = rng.normal(size=(1000, 3)) + 2 * np.eye(3)[y]
    logs = log_probabilities(softmax(2 * evidence, axis=1))  # the posterior of these Gaussians
    np.testing.assert_allclose(estimate_proportions(logs), [0.8, 0.15, 0.05], atol=0.04)
    certain = log_probabilities(np.eye(3)[[0] * 7])
    np.testing.assert_allclose(estimate_proportions(certain), [0.8, 0.1, 0.1], atol=0.01)


def test_weights_stay_at_the_ensemble_without_evidence():
    terms = np.zeros((4, 10, 2))
    np.testing.assert_allclose(learn_weights(terms, np.arange(10) % 2, np.zeros(10)), [1, 0, 0, 0])


def test_answers_are_probabilities():
    logs, vectors, _ = block()
    terms = teach(logs, [kernel_of(vectors)], np.full(3, 1 / 3)).terms
    np.testing.assert_allclose(np.exp(answer(terms, [1, 0.5, 0.5])).sum(axis=1), 1)
