"""Statistics of gains against known answers: no gain where there is none, and planted gains."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from studies.censoring.gain import (
    choose_nested,
    correct,
    describe,
    nested_gain,
    smallest_detectable,
    weak_subjects,
)

ALL = {"all": np.ones((14, 3), dtype=bool)}


def draw(rng, gain=0.0, n_subjects=12, n_seeds=6, between=0.02, shared=0.01, noise=0.03):
    """Return gains with effects of subjects, of seeds on all subjects, and noise."""
    effects = between * rng.normal(size=(n_subjects, 1)) + shared * rng.normal(size=(1, n_seeds))
    return gain + effects + noise * rng.normal(size=(n_subjects, n_seeds))


def draw_settings(rng, gain=0.0, harm=0.0):
    """Return gains of five settings, of which the second gains and the last does harm."""
    gains = 0.01 * rng.normal(size=(5, 14, 3)) - 0.01 * rng.normal(size=(14, 3))
    gains[1] += gain
    gains[-1] -= harm
    return gains


@pytest.mark.parametrize(
    "sizes",
    [
        # A lucky training of the baseline affects all subjects: a paired t-test rejects 19 %.
        {"shared": 0.02},
        {"shared": 0.0, "n_subjects": 19, "noise": 0.005},
        {"shared": 0.0, "n_seeds": 1},
        {"between": 0.0, "n_seeds": 8},
    ],
    ids=str,
)
def test_false_gains_and_coverage(sizes):
    rng = np.random.default_rng(0)
    rows = [describe(draw(rng, **sizes)) for _ in range(100)]
    assert 0.01 <= np.mean([row["p"] < 0.05 for row in rows]) <= 0.10
    assert 0.90 <= np.mean([row["low"] <= 0 <= row["high"] for row in rows]) <= 0.99


def test_degenerate_gains():
    assert describe(np.zeros((4, 3)))["p"] == 1.0
    assert describe(np.full((4, 3), 0.1))["p"] < 0.001
    single = describe(np.full((1, 3), 0.1))
    assert (single["subjects"], single["p"]) == (1, 1.0) and np.isnan(single["error"])
    assert describe(np.full((3, 2), np.nan))["subjects"] == 0


def test_nested_choice_selects_the_best_setting_or_none(rng):
    gains = 0.01 * rng.normal(size=(4, 10, 3))
    gains[2] += 0.05
    nested, selected = choose_nested(gains)
    assert (selected == 2).all() and nested.mean() == pytest.approx(gains[2].mean())
    nested, selected = choose_nested(gains - 0.2, none=True)
    assert (selected == -1).all() and not nested.any()


def test_nested_choice_ignores_the_own_subject():
    gains = np.zeros((2, 3, 1))
    gains[0, 0], gains[1, 1:] = 1.0, 0.1
    nested, selected = choose_nested(gains)
    assert selected[0] == 1 and nested[0, 0] == 0.0


def test_failed_trainings_are_left_out(rng):
    gains = draw_settings(rng, 0.1)
    gains[1, 0, 0], gains[2] = np.nan, np.nan
    nested, selected = choose_nested(gains)
    assert (selected == 1).all() and np.isfinite(nested).sum() == 14 * 3 - 1
    row = nested_gain(gains, ALL, n_draws=50).loc["all"]
    assert row["gain"] == pytest.approx(np.nanmean(gains[1])) and row["p"] < 0.05


def test_weak_subjects_do_not_gain_by_regression_to_the_mean():
    rng, naive, fair = np.random.default_rng(7), [], []
    for _ in range(200):
        subject = 0.6 + 0.02 * rng.normal(size=(12, 1))
        baseline, scores = (subject + 0.05 * rng.normal(size=(12, 4)) for _ in range(2))
        naive.append((scores - baseline)[np.argsort(baseline.mean(axis=1))[:6]].mean())
        fair.append((scores - baseline)[weak_subjects(baseline)].mean())
    assert np.mean(naive) > 0.008
    assert abs(np.mean(fair)) < 3 * np.std(fair) / np.sqrt(200)
    assert not weak_subjects(baseline[:, :1]).any()


def test_holm_correction_leaves_missing_p():
    np.testing.assert_allclose(correct([0.01, 0.04, np.nan, 0.02]), [0.03, 0.04, np.nan, 0.04])


def test_smallest_detectable_gain_has_a_power_of_80_percent():
    rng = np.random.default_rng(9)
    gain = smallest_detectable(np.sqrt((0.02**2 + 0.03**2 / 4) / 12), 12, 15)
    p = [ttest_1samp(draw(rng, gain, n_seeds=4, shared=0.0).mean(axis=1), 0).pvalue for _ in range(400)]
    assert np.mean(np.array(p) < 0.05 / 15) == pytest.approx(0.8, abs=0.07)
    assert np.isnan(smallest_detectable(0.01, 2))


def test_nested_gain_repeats_the_choice_in_its_test():
    rng, p, naive = np.random.default_rng(10), [], []
    for _ in range(200):
        gains = draw_settings(rng)
        p.append(nested_gain(gains, ALL, n_draws=200).loc["all", "p"])
        naive.append(ttest_1samp(choose_nested(gains)[0].mean(axis=1), 0).pvalue)
    assert np.mean(np.array(naive) < 0.05) > 0.08
    assert np.mean(np.array(p) < 0.05) <= 0.06


@pytest.mark.parametrize("none", [False, True])
def test_nested_gain_beside_weights_that_lose_the_task(none):
    rng = np.random.default_rng(11)
    rows = [nested_gain(draw_settings(rng, 0.012, 0.1), ALL, none, n_draws=200).loc["all"] for _ in range(20)]
    assert np.mean([row["p"] < 0.05 for row in rows]) > 0.8
    assert np.mean([row["low"] <= 0.012 <= row["high"] for row in rows]) > 0.8


def test_groups_share_the_choice(rng):
    gains, weak = draw_settings(rng, 0.1), np.zeros((14, 3), dtype=bool)
    weak[:4] = True
    table = nested_gain(gains, {**ALL, "weak": weak, "empty": weak & False}, n_draws=50)
    assert table.loc["weak", "gain"] == pytest.approx(gains[1, :4].mean())
    assert table["subjects"].tolist() == [14, 4, 0] and np.isnan(table.loc["empty", "p"])
