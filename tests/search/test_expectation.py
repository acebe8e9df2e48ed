"""What is expected of the next person, against Student's formula and against people drawn anew."""

import numpy as np
import pytest
from scipy.stats import t

from braindecode_censor.search.expectation import expect, paired_interval, prediction_interval, shared_trials

PEOPLE = list("abcdefghij")
RNG = np.random.default_rng(0)


def test_interval_is_students():
    scores = np.array([0.5, 0.6, 0.7, 0.65])
    half = t.ppf(0.95, 3) * scores.std(ddof=1) * np.sqrt(1.25)
    assert prediction_interval(scores) == pytest.approx((scores.mean() - half, scores.mean() + half))


def test_interval_covers_the_next_person_as_often_as_it_says():
    draws = RNG.normal(0.6, 0.05, size=(4000, 9))
    found = [prediction_interval(draw[:-1]) for draw in draws]
    covered = np.mean([low <= draw[-1] <= high for (low, high), draw in zip(found, draws)])
    assert covered == pytest.approx(0.9, abs=0.015)


def test_interval_stays_between_0_and_1_and_one_person_tells_nothing():
    assert prediction_interval([0.95, 0.99, 1.0, 0.7])[1] == 1.0
    assert prediction_interval([0.8]) == (0.0, 1.0)


def test_people_without_an_error_do_not_promise_one_without():
    low, high = prediction_interval([1.0, 1.0, 1.0, 1.0], n_trials=20)
    rate = 81 / 82
    assert low == pytest.approx(1 - t.ppf(0.95, 3) * np.sqrt(1.25 * rate * (1 - rate) / 20)) and high == 1.0
    wide = [0.2, 0.4, 0.7, 0.9]
    assert prediction_interval(wide, n_trials=20) == prediction_interval(wide)


def test_a_clear_gain_needs_no_warning():
    scores = RNG.uniform(0.6, 0.8, size=10)
    found = expect(PEOPLE, scores, ("plain", scores - 0.1 + RNG.normal(0, 0.01, 10)))
    assert found.warnings == [] and found.gain["low"] > 0
    assert found.scores == pytest.approx(dict(zip(PEOPLE, scores)))
    assert found.mean == pytest.approx(scores.mean())
    assert found.lower_quartile == pytest.approx(np.quantile(scores, 0.25))
    assert "between" in str(found)


def test_a_gain_within_noise():
    scores = RNG.uniform(0.6, 0.8, size=10)
    found = expect(PEOPLE, scores, ("plain", scores + RNG.normal(0, 0.05, 10)))
    assert "The gain over plain is within noise" in found.warnings[0]


def test_the_gain_is_paired():
    base = RNG.uniform(0.3, 0.9, size=10)  # people differ far more than the decoders do
    gain = paired_interval(base + 0.02 + RNG.normal(0, 0.005, 10), base)
    assert 0 < gain["low"] < gain["mean"] < gain["high"] < 0.04


def test_few_people_and_people_who_were_not_tested():
    scores = np.r_[RNG.uniform(0.6, 0.8, size=5), np.full(5, np.nan)]
    found = expect(PEOPLE, scores)
    assert "5 people are few" in found.warnings[0]
    assert list(found.scores) == PEOPLE[:5]


def test_nobody_tested():
    found = expect(PEOPLE, np.full(10, np.nan))
    assert found.scores == {} and "Nobody was tested" in found.warnings[0]


def test_a_choice_by_everybodys_scores_is_said():
    found = expect(PEOPLE, RNG.uniform(size=10), strict=False)
    assert "decided by the scores of all people" in found.warnings[0]


def test_a_person_who_is_there_twice_is_found():
    X = RNG.normal(size=(12, 2, 5))
    subjects = np.repeat(PEOPLE[:3], 4)
    assert shared_trials(X, subjects) == []
    X[9] = X[1]
    X[10] = X[2]
    assert shared_trials(X, subjects) == [("a", "c")]
    found = expect(PEOPLE, RNG.uniform(size=10), shared=shared_trials(X, subjects))
    assert "Candidates have seen the person: 'a' and 'c' have trials in common" in found.warnings[0]


def test_the_new_person_among_the_people_is_found():
    X = RNG.normal(size=(8, 2, 5))
    assert shared_trials(X, np.repeat(PEOPLE[:2], 4), X[5:6]) == [("b", "the new person")]
    assert shared_trials(X, np.repeat(PEOPLE[:2], 4), X[5:6] + 1) == []


def test_silent_trials_are_nobodys():
    assert shared_trials(np.zeros((8, 2, 5)), np.repeat(PEOPLE[:2], 4)) == []
