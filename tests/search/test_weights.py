"""Ensemble weights with few answers."""

import numpy as np
import pytest
from scipy.optimize import minimize

from braindecode_censor.search.weights import ENSEMBLE_RULES, balanced_loss, choose_weights, greedy_selection
from braindecode_censor.trials.balance import balanced_weights

RNG = np.random.default_rng(0)
SUBJECTS = np.repeat([3, 5, 8, 9], 12)
Y = np.tile([0, 1, 2], 16)


def sure_of(right, sure=0.9):
    """Probabilities that are right in some trials and evenly spread elsewhere."""
    P = np.full((len(Y), 3), 1 / 3)
    P[right] = (1 - sure) / 2
    P[right, Y[right]] = sure
    return P


@pytest.mark.parametrize("rule", ENSEMBLE_RULES)
def test_perfect_candidate_gets_all_weight(rule):
    perfect, uniform = sure_of(np.ones(len(Y), bool), 1.0), np.full((len(Y), 3), 1 / 3)
    wrong = np.roll(perfect, 1, axis=1)
    weights = choose_weights(np.stack([uniform, perfect, wrong]), Y, SUBJECTS, rule)
    expected = {"top": [1 / 3, 1 / 3, 1 / 3]}.get(rule, [0, 1, 0])
    np.testing.assert_allclose(weights, expected, atol=1e-12)


def test_complementary_candidates_get_equal_weights():
    first = np.arange(len(Y)) // 3 % 2 == 0  # half of the trials of each subject
    P = np.stack([sure_of(first), sure_of(~first), np.full((len(Y), 3), 1 / 3)])
    np.testing.assert_allclose(choose_weights(P, Y, SUBJECTS), [0.5, 0.5, 0], atol=1e-12)


@pytest.mark.parametrize("rule", ["greedy", "pick"])
def test_identical_candidates_get_equal_weights(rule):
    good = sure_of(RNG.random(len(Y)) < 0.7)
    P = np.stack([good, np.full((len(Y), 3), 1 / 3), good, good])
    np.testing.assert_allclose(choose_weights(P, Y, SUBJECTS, rule), [1 / 3, 0, 1 / 3, 1 / 3], atol=1e-12)


def test_weights_do_not_depend_on_the_order_of_candidates():
    P = RNG.dirichlet([1, 1, 1], size=(6, len(Y)))
    P[:, np.arange(len(Y)), Y] += 0.5
    P /= P.sum(axis=-1, keepdims=True)
    order = RNG.permutation(6)
    for rule in ENSEMBLE_RULES:
        np.testing.assert_allclose(
            choose_weights(P, Y, SUBJECTS, rule)[order],
            choose_weights(P[order], Y, SUBJECTS, rule),
            atol=1e-12,
        )


def test_greedy_weights_are_near_the_optimum():
    P = np.random.default_rng(1).dirichlet([0.3, 0.3, 0.3], size=(4, len(Y)))
    P[:, np.arange(len(Y)), Y] += np.array([0.2, 0.25, 0.25, 0.22])[:, None]
    P /= P.sum(axis=-1, keepdims=True)
    true, w = P[:, np.arange(len(Y)), Y], balanced_weights(Y, SUBJECTS)

    def loss(logits):
        weights = np.exp(logits) / np.exp(logits).sum()
        return balanced_loss(weights @ true, w)

    optimum = minimize(loss, np.zeros(4)).fun
    assert optimum - 1e-5 <= balanced_loss(choose_weights(P, Y, SUBJECTS) @ true, w) <= optimum + 0.005
    assert balanced_loss(true, w).min() > optimum + 0.02  # no single candidate would have done


def crowd(seed, n_subjects=8):
    """Twenty candidates, equally good in the mean, but each by chance better for some subjects than for others."""
    rng = np.random.default_rng(seed)
    y, subjects = np.tile(np.arange(7), 4 * n_subjects), np.repeat(np.arange(n_subjects), 28)
    P = rng.dirichlet(np.full(7, 0.3), size=(20, len(y)))
    P[:, np.arange(len(y)), y] += rng.gamma(1, 0.3, size=(20, n_subjects))[:, subjects]
    return P / P.sum(axis=-1, keepdims=True), y, subjects


def test_bagging_generalises_from_two_subjects():
    gains = []
    for seed in range(24):
        P, y, subjects = crowd(seed)
        true, few = P[:, np.arange(len(y)), y], subjects < 2
        once = greedy_selection(true[:, few], balanced_weights(y[few], subjects[few]))
        bagged = choose_weights(P[:, few], y[few], subjects[few])
        balance = balanced_weights(y[~few], subjects[~few])
        gains.append(
            balanced_loss(once @ true[:, ~few], balance) - balanced_loss(bagged @ true[:, ~few], balance)
        )
    assert np.mean(gains) > 0.05
    assert np.mean(np.array(gains) > 0) > 0.7


def test_bags_are_repeatable_and_spread_the_weight():
    P, y, subjects = crowd(0)
    weights = choose_weights(P, y, subjects)
    np.testing.assert_array_equal(weights, choose_weights(P, y, subjects))
    assert (weights > 0).sum() > 10
    assert weights.sum() == pytest.approx(1)


def test_balanced_weights_by_hand():
    y = np.array([0, 0, 0, 1, 0, 1, 1])
    subjects = np.array([1, 1, 1, 1, 2, 2, 2])
    np.testing.assert_allclose(
        balanced_weights(y, subjects), [1 / 12, 1 / 12, 1 / 12, 1 / 4, 1 / 4, 1 / 8, 1 / 8], atol=1e-15
    )
    only = balanced_weights([0, 0, 1, 2], ["a", "a", "b", "b"])  # who has one class only counts as the other
    np.testing.assert_allclose(only, [0.25, 0.25, 0.25, 0.25])


def test_subject_with_many_trials_does_not_decide():
    subjects = np.r_[np.zeros(40), np.ones(4), np.full(4, 2)]
    P = np.stack([sure_of(subjects == 0), sure_of(subjects != 0)])
    np.testing.assert_array_equal(choose_weights(P, Y, subjects, "pick"), [0, 1])


def test_weights_from_a_single_subject():
    P = np.stack([sure_of(np.ones(len(Y), bool)), np.full((len(Y), 3), 1 / 3)])
    np.testing.assert_array_equal(choose_weights(P, Y, np.zeros(len(Y))), [1, 0])


def test_choose_weights_refuses_an_unknown_rule():
    with pytest.raises(ValueError, match="rule='vote' is unknown; choose from"):
        choose_weights(np.ones((1, 3, 3)), [0, 1, 2], [0, 0, 0], "vote")
