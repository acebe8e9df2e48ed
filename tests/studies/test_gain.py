"""Statistics of gains against known answers: nothing where nothing is, and what was planted where it was planted."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from studies.censoring.gain import (
    choose_nested,
    correct,
    describe,
    nested_gain,
    smallest_detectable,
    weak_people,
)


def draw(rng, gain=0.0, people=12, seeds=6, between=0.02, shared=0.01, noise=0.03):
    """Gains of people who differ, with seeds that act on everybody alike, and what is left."""
    parts = between * rng.normal(size=(people, 1)), shared * rng.normal(size=(1, seeds))
    return gain + parts[0] + parts[1] + noise * rng.normal(size=(people, seeds))


def rate(rng, n=200, **sizes):
    """How often a gain is found, and how often the interval holds the true one."""
    found = [describe(draw(rng, **sizes)) for _ in range(n)]
    true = sizes.get("gain", 0.0)
    return np.mean([row["p"] < 0.05 for row in found]), np.mean(
        [r["low"] <= true <= r["high"] for r in found]
    )


@pytest.mark.parametrize(
    "sizes",
    [
        {"shared": 0.0},
        {"shared": 0.02},  # a lucky training of the baseline makes everybody lose: a paired t-test finds 0.19
        {"shared": 0.0, "people": 19, "noise": 0.005},
        {"shared": 0.0, "seeds": 1},
        {"between": 0.0, "seeds": 8},
    ],
    ids=str,
)
def test_what_is_not_there_is_found_as_seldom_as_it_should_be(sizes):
    found, inside = rate(np.random.default_rng(0), **sizes)
    assert 0.01 <= found <= 0.10 and 0.90 <= inside <= 0.99


def test_a_gain_that_is_there_is_found():
    found, inside = rate(np.random.default_rng(1), n=50, gain=0.04, people=16, seeds=8)
    assert found > 0.95 and inside >= 0.85


def test_it_is_about_people_not_about_trainings():
    rng = np.random.default_rng(1)
    few, many = (
        [describe(draw(rng, people=people, seeds=seeds, shared=0.0))["error"] for _ in range(5)]
        for people, seeds in ((8, 20), (40, 4))
    )
    assert np.mean(few) > 1.3 * np.mean(many)


def test_where_seeds_do_nothing_it_is_the_paired_test():
    for gains in (
        draw(np.random.default_rng(2), 0.012, people=16, seeds=1),
        np.linspace(-0.1, 0.2, 12)[:, None],
    ):
        expected = ttest_1samp(gains[:, 0], 0)
        for seeds in (1, 8):  # seeds that do not differ are one seed
            found = describe(np.tile(gains, seeds))
            assert found["gain"] == pytest.approx(gains.mean())
            assert found["p"] == pytest.approx(expected.pvalue, abs=0.02)
        assert describe(-gains)["p"] == pytest.approx(found["p"], abs=0.02) and describe(-gains)["gain"] < 0


def test_gains_that_are_all_alike():
    assert describe(np.zeros((4, 3)))["p"] == 1.0
    assert describe(np.full((4, 3), 0.1))["p"] < 0.001


def test_of_one_person_nothing_follows():
    alone = describe(np.full((1, 3), 0.1))
    assert (alone["people"], alone["gain"], alone["p"]) == (1, pytest.approx(0.1), 1.0) and np.isnan(
        alone["error"]
    )
    assert describe(np.full((3, 2), np.nan))["people"] == 0


def test_the_best_of_many_weights_gains_by_luck_and_the_nested_choice_does_not():
    rng = np.random.default_rng(5)
    best, nested = [], []
    for _ in range(200):
        gains = draw(rng, people=10, seeds=4)[None] + 0.05 * rng.normal(size=(8, 10, 4))
        gains -= gains.mean(axis=0).mean()
        best.append(gains.mean(axis=(1, 2)).max())
        nested.append(np.nanmean(choose_nested(gains)[0]))
    assert np.mean(best) > 0.008
    assert abs(np.mean(nested)) < 3 * np.std(nested) / np.sqrt(200) + 1e-9


def test_the_nested_choice_finds_the_weight_that_helps():
    rng = np.random.default_rng(6)
    gains = 0.01 * rng.normal(size=(4, 10, 3))
    gains[2] += 0.05
    nested, chosen = choose_nested(gains)
    assert (chosen == 2).all() and nested.mean() == pytest.approx(gains[2].mean())
    nested, chosen = choose_nested(gains - 0.2, none=True)
    assert (chosen == -1).all() and not nested.any()


def test_a_person_has_no_say_in_the_own_choice():
    gains = np.zeros((2, 3, 1))
    gains[0, 0], gains[1, 1:] = 1.0, 0.1
    nested, chosen = choose_nested(gains)
    assert chosen[0] == 1 and nested[0, 0] == 0.0


def test_weak_people_by_the_same_seeds_gain_by_luck_and_by_other_seeds_they_do_not():
    rng = np.random.default_rng(7)
    naive, fair = [], []
    for _ in range(200):
        person = 0.6 + 0.02 * rng.normal(size=(12, 1))
        baseline, scores = (person + 0.05 * rng.normal(size=(12, 4)) for _ in range(2))
        gains = scores - baseline
        lowest = np.argsort(baseline.mean(axis=1))[:6]
        naive.append(gains[lowest].mean())
        fair.append(gains[weak_people(baseline)].mean())
    assert np.mean(naive) > 0.008
    assert abs(np.mean(fair)) < 3 * np.std(fair) / np.sqrt(200)


def test_a_gain_of_the_weak_is_found():
    rng = np.random.default_rng(8)
    person = np.linspace(0.4, 0.8, 12)[:, None]
    baseline = person + 0.02 * rng.normal(size=(12, 4))
    gains = np.where(person < 0.6, 0.05, 0.0) + 0.01 * rng.normal(size=(12, 4))
    row = describe(np.where(weak_people(baseline), gains, np.nan))
    assert row["people"] <= 7 and row["gain"] == pytest.approx(0.05, abs=0.01) and row["p"] < 0.01
    assert not weak_people(baseline[:, :1]).any()


def test_holm_by_hand():
    np.testing.assert_allclose(correct([0.01, 0.04, np.nan, 0.02]), [0.03, 0.04, np.nan, 0.04])


def test_the_smallest_detectable_gain_is_detected_four_times_in_five():
    rng = np.random.default_rng(9)
    error = np.sqrt((0.02**2 + 0.03**2 / 4) / 12)
    gain = smallest_detectable(error, 12, 15)
    found = (draw(rng, gain, people=12, seeds=4, shared=0.0) for _ in range(400))
    p = [ttest_1samp(gains.mean(axis=1), 0).pvalue for gains in found]
    assert np.mean(np.array(p) < 0.05 / 15) == pytest.approx(0.8, abs=0.07)
    assert smallest_detectable(error, 12) < 0.8 * gain and np.isnan(smallest_detectable(error, 2))


def draw_settings(rng, gain=0.0, harm=0.0, weights=5, people=14, seeds=3):
    gains = 0.01 * rng.normal(size=(weights, people, seeds)) - 0.01 * rng.normal(size=(people, seeds))
    gains[1] += gain
    gains[-1] -= harm
    return gains


def test_a_nested_gain_is_tested_with_its_choice():
    rng, everybody = np.random.default_rng(10), {"all": np.ones((14, 3), dtype=bool)}
    p, naive = [], []
    for _ in range(200):
        gains = draw_settings(rng)
        p.append(nested_gain(gains, everybody, n_draws=200).loc["all", "p"])
        naive.append(ttest_1samp(choose_nested(gains)[0].mean(axis=1), 0).pvalue)
    assert np.mean(np.array(naive) < 0.05) > 0.08
    assert np.mean(np.array(p) < 0.05) <= 0.06


def test_a_planted_gain_is_found_beside_weights_that_destroy_the_task():
    rng, everybody = np.random.default_rng(11), {"all": np.ones((14, 3), dtype=bool)}
    found = [
        nested_gain(draw_settings(rng, 0.012, 0.1), everybody, none, n_draws=200).loc["all"]
        for none in (False, True)
        for _ in range(20)
    ]
    assert np.mean([row["p"] < 0.05 for row in found]) > 0.8
    assert np.mean([row["low"] <= 0.012 <= row["high"] for row in found]) > 0.85


def test_settings_that_destroy_the_task_do_not_make_the_test_blunt():
    """They differ widely between people; nobody would choose them, so they must not decide what luck can do."""
    rng, everybody = np.random.default_rng(14), {"all": np.ones((14, 3), dtype=bool)}
    p, errors = [], []
    for _ in range(100):
        good = draw_settings(rng)
        bad = -0.3 + 0.15 * rng.normal(size=(4, 14, 1)) + 0.05 * rng.normal(size=(4, 14, 3))
        alone, beside = (
            nested_gain(settings, everybody, True, n_draws=200).loc["all"]
            for settings in (good, np.concatenate([good, bad]))
        )
        p.append(beside["p"])
        errors.append((alone["error"], beside["error"]))
    alone, beside = np.mean(errors, axis=0)
    assert beside == pytest.approx(alone, rel=0.1)
    assert np.mean(np.array(p) < 0.05) <= 0.08


def test_harm_is_found_where_all_settings_hurt():
    rng, everybody = np.random.default_rng(15), {"all": np.ones((14, 3), dtype=bool)}
    gains = draw_settings(rng) - 0.3
    gains[2] = np.nan  # a setting of which all trainings failed is not the best of them
    row = nested_gain(gains, everybody, n_draws=200).loc["all"]
    assert row["p"] < 0.05 and row["low"] < -0.3 < row["high"] < -0.25


def test_groups_share_the_choice_and_nobody_is_nobody():
    rng, weak = np.random.default_rng(12), np.zeros((14, 3), dtype=bool)
    gains = draw_settings(rng, 0.1)
    weak[:4] = True
    found = nested_gain(
        gains, {"all": ~np.zeros_like(weak), "weak": weak, "nobody": weak & False}, n_draws=50
    )
    assert found.loc["weak", "gain"] == pytest.approx(gains[1, :4].mean())
    assert found["people"].tolist() == [14, 4, 0] and np.isnan(found.loc["nobody", "p"])


def test_a_training_that_failed_is_left_out():
    gains = draw_settings(np.random.default_rng(13), 0.1)
    gains[1, 0, 0], gains[2] = np.nan, np.nan
    nested, chosen = choose_nested(gains)
    assert (chosen == 1).all() and np.isnan(nested[0, 0]) and np.isfinite(nested).sum() == 14 * 3 - 1
    found = nested_gain(gains, {"all": np.ones((14, 3), dtype=bool)}, n_draws=50).loc["all"]
    assert found["gain"] == pytest.approx(np.nanmean(gains[1])) and found["p"] < 0.05
