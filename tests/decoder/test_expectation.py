"""The score to expect of a new subject, against Student's formula and against subjects drawn at random."""

import numpy as np
import pytest
from scipy.stats import t

from braindecode_censor.decoder.expectation import (
    expect,
    find_shared_trials,
    paired_interval,
    prediction_interval,
)

SUBJECTS = list("abcdefghij")
RNG = np.random.default_rng(0)


def test_prediction_interval_is_students():
    scores = np.array([0.5, 0.6, 0.7, 0.65])
    half = t.ppf(0.95, 3) * scores.std(ddof=1) * np.sqrt(1.25)
    assert prediction_interval(scores) == pytest.approx((scores.mean() - half, scores.mean() + half))


def test_prediction_interval_limits():
    assert prediction_interval([0.95, 0.99, 1.0, 0.7])[1] == 1.0
    assert prediction_interval([0.8]) == (0.0, 1.0)


def test_prediction_interval_of_perfect_scores_has_a_width():
    low, high = prediction_interval([1.0, 1.0, 1.0, 1.0], n_trials=20)
    rate = 81 / 82
    assert low == pytest.approx(1 - t.ppf(0.95, 3) * np.sqrt(1.25 * rate * (1 - rate) / 20)) and high == 1.0
    wide = [0.2, 0.4, 0.7, 0.9]
    assert prediction_interval(wide, n_trials=20) == prediction_interval(wide)


def test_expect_clear_gain_without_warning():
    scores = RNG.uniform(0.6, 0.8, size=10)
    heldout = expect(SUBJECTS, scores, ("plain", scores - 0.1 + RNG.normal(0, 0.01, 10)))
    assert heldout.warnings == [] and heldout.gain["low"] > 0
    assert heldout.scores == pytest.approx(dict(zip(SUBJECTS, scores)))
    assert heldout.mean == pytest.approx(scores.mean())
    assert heldout.lower_quartile == pytest.approx(np.quantile(scores, 0.25))
    assert "between" in str(heldout)


def test_expect_warns_of_a_gain_within_noise():
    scores = RNG.uniform(0.6, 0.8, size=10)
    heldout = expect(SUBJECTS, scores, ("plain", scores + RNG.normal(0, 0.05, 10)))
    assert "The gain over plain is within noise" in heldout.warnings[0]


def test_paired_interval_is_paired():
    base = RNG.uniform(0.3, 0.9, size=10)  # Subjects differ far more than decoders do.
    gain = paired_interval(base + 0.02 + RNG.normal(0, 0.005, 10), base)
    assert 0 < gain["low"] < gain["mean"] < gain["high"] < 0.04


def test_expect_few_subjects_of_whom_some_were_not_tested():
    scores = np.r_[RNG.uniform(0.6, 0.8, size=5), np.full(5, np.nan)]
    heldout = expect(SUBJECTS, scores)
    assert "5 subjects are few" in heldout.warnings[0]
    assert list(heldout.scores) == SUBJECTS[:5]


def test_expect_without_tested_subjects():
    heldout = expect(SUBJECTS, np.full(10, np.nan))
    assert heldout.scores == {} and "No subject was tested" in heldout.warnings[0]


def test_expect_warns_unless_nested():
    heldout = expect(SUBJECTS, RNG.uniform(size=10), nested=False)
    assert "selected by the scores of all subjects" in heldout.warnings[0]


def test_find_shared_trials_of_a_subject_with_two_names():
    X = RNG.normal(size=(12, 2, 5))
    subjects = np.repeat(SUBJECTS[:3], 4)
    assert find_shared_trials(X, subjects) == []
    X[9] = X[1]
    X[10] = X[2]
    assert find_shared_trials(X, subjects) == [("a", "c")]
    heldout = expect(SUBJECTS, RNG.uniform(size=10), shared=find_shared_trials(X, subjects))
    assert (
        "Candidates have seen the held-out subject: 'a' and 'c' have trials in common" in heldout.warnings[0]
    )


def test_find_shared_trials_of_the_new_subject():
    X = RNG.normal(size=(8, 2, 5))
    assert find_shared_trials(X, np.repeat(SUBJECTS[:2], 4), X[5:6]) == [("b", "the new subject")]
    assert find_shared_trials(X, np.repeat(SUBJECTS[:2], 4), X[5:6] + 1) == []


def test_find_shared_trials_ignores_silence():
    assert find_shared_trials(np.zeros((8, 2, 5)), np.repeat(SUBJECTS[:2], 4)) == []
