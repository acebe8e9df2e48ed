"""Ensemble weights with known answers."""

import numpy as np
import pytest
from scipy.optimize import minimize

from braindecode_censor.search.weights import (
    RULES,
    balanced_loss,
    balanced_weights,
    choose_weights,
    greedy_selection,
)

RNG = np.random.default_rng(0)
PEOPLE = np.repeat([3, 5, 8, 9], 12)
Y = np.tile([0, 1, 2], 16)


def sure_of(right, sure=0.9):
    """Probabilities that are right where told so and evenly spread elsewhere."""
    P = np.full((len(Y), 3), 1 / 3)
    P[right] = (1 - sure) / 2
    P[right, Y[right]] = sure
    return P


@pytest.mark.parametrize("rule", RULES)
def test_one_perfect_candidate_gets_all(rule):
    perfect, uniform = sure_of(np.ones(len(Y), bool), 1.0), np.full((len(Y), 3), 1 / 3)
    wrong = np.roll(perfect, 1, axis=1)
    weights = choose_weights(np.stack([uniform, perfect, wrong]), Y, PEOPLE, rule)
    expected = {"top": [1 / 3, 1 / 3, 1 / 3]}.get(rule, [0, 1, 0])
    np.testing.assert_allclose(weights, expected, atol=1e-12)


def test_two_complementary_candidates_share_equally():
    first = np.arange(len(Y)) // 3 % 2 == 0  # half of the trials of everybody
    P = np.stack([sure_of(first), sure_of(~first), np.full((len(Y), 3), 1 / 3)])
    np.testing.assert_allclose(choose_weights(P, Y, PEOPLE), [0.5, 0.5, 0], atol=1e-12)


@pytest.mark.parametrize("rule", ["greedy", "pick"])
def test_identical_candidates_share(rule):
    good = sure_of(RNG.random(len(Y)) < 0.7)
    P = np.stack([good, np.full((len(Y), 3), 1 / 3), good, good])
    np.testing.assert_allclose(choose_weights(P, Y, PEOPLE, rule), [1 / 3, 0, 1 / 3, 1 / 3], atol=1e-12)


def test_order_of_candidates_does_not_matter():
    P = RNG.dirichlet([1, 1, 1], size=(6, len(Y)))
    P[:, np.arange(len(Y)), Y] += 0.5
    P /= P.sum(axis=-1, keepdims=True)
    order = RNG.permutation(6)
    for rule in RULES:
        np.testing.assert_allclose(
            choose_weights(P, Y, PEOPLE, rule)[order], choose_weights(P[order], Y, PEOPLE, rule), atol=1e-12
        )


def test_greedy_comes_near_the_optimum():
    P = np.random.default_rng(1).dirichlet([0.3, 0.3, 0.3], size=(4, len(Y)))
    P[:, np.arange(len(Y)), Y] += np.array([0.2, 0.25, 0.25, 0.22])[:, None]
    P /= P.sum(axis=-1, keepdims=True)
    true, w = P[:, np.arange(len(Y)), Y], balanced_weights(Y, PEOPLE)

    def loss(logits):
        share = np.exp(logits) / np.exp(logits).sum()
        return balanced_loss(share @ true, w)

    optimum = minimize(loss, np.zeros(4)).fun
    assert optimum - 1e-5 <= balanced_loss(choose_weights(P, Y, PEOPLE) @ true, w) <= optimum + 0.005
    assert balanced_loss(true, w).min() > optimum + 0.02  # no single candidate would have done


def crowd(seed, people=8):
    """Twenty candidates, equally good in the mean, but each by chance better for some people than for others."""
    rng = np.random.default_rng(seed)
    y, who = np.tile(np.arange(7), 4 * people), np.repeat(np.arange(people), 28)
    P = rng.dirichlet(np.full(7, 0.3), size=(20, len(y)))
    P[:, np.arange(len(y)), y] += rng.gamma(1, 0.3, size=(20, people))[:, who]
    return P / P.sum(axis=-1, keepdims=True), y, who


def test_bagging_keeps_two_people_from_deciding_by_chance():
    gains = []
    for seed in range(24):
        P, y, who = crowd(seed)
        true, known = P[:, np.arange(len(y)), y], who < 2
        once = greedy_selection(true[:, known], balanced_weights(y[known], who[known]))
        bagged = choose_weights(P[:, known], y[known], who[known])
        others = balanced_weights(y[~known], who[~known])
        gains.append(
            balanced_loss(once @ true[:, ~known], others) - balanced_loss(bagged @ true[:, ~known], others)
        )
    assert np.mean(gains) > 0.05
    assert np.mean(np.array(gains) > 0) > 0.7


def test_bags_of_candidates_are_the_same_every_time_and_let_many_share():
    P, y, who = crowd(0)
    weights = choose_weights(P, y, who)
    np.testing.assert_array_equal(weights, choose_weights(P, y, who))
    assert (weights > 0).sum() > 10
    assert weights.sum() == pytest.approx(1)


def test_most_of_the_weight_stays_with_the_good_ones_among_many():
    sure, even = sure_of(np.ones(len(Y), bool)), np.full((len(Y), 3), 1 / 3)
    weights = choose_weights(np.stack([even, sure, *[even] * 7, sure]), Y, PEOPLE)
    np.testing.assert_allclose(weights[[1, 9]], weights[1], atol=0.15)
    assert weights[[1, 9]].sum() > 0.7  # no bag with one of them takes another


def test_weights_are_balanced_over_people_and_classes():
    y = np.array([0, 0, 0, 1, 0, 1, 1])
    people = np.array([1, 1, 1, 1, 2, 2, 2])
    np.testing.assert_allclose(
        balanced_weights(y, people), [1 / 12, 1 / 12, 1 / 12, 1 / 4, 1 / 4, 1 / 8, 1 / 8], atol=1e-15
    )
    only = balanced_weights([0, 0, 1, 2], ["a", "a", "b", "b"])  # who has one class only counts as the other
    np.testing.assert_allclose(only, [0.25, 0.25, 0.25, 0.25])


def test_a_person_with_many_trials_does_not_decide_alone():
    people = np.r_[np.zeros(40), np.ones(4), np.full(4, 2)]
    P = np.stack([sure_of(people == 0), sure_of(people != 0)])
    np.testing.assert_array_equal(choose_weights(P, Y, people, "pick"), [0, 1])


def test_one_person_alone_can_be_chosen_from():
    P = np.stack([sure_of(np.ones(len(Y), bool)), np.full((len(Y), 3), 1 / 3)])
    np.testing.assert_array_equal(choose_weights(P, Y, np.zeros(len(Y))), [1, 0])


def test_unknown_rule():
    with pytest.raises(ValueError, match="rule='vote' is unknown; choose from"):
        choose_weights(np.ones((1, 3, 3)), [0, 1, 2], [0, 0, 0], "vote")
