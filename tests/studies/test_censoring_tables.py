"""The tables say what was planted in simulated scores of a study."""

import numpy as np
import pandas as pd
import pytest

from studies.censoring import tables as tables
from studies.censoring.page import as_details, as_markdown

WEIGHTS = (0.1, 0.3, 1.0)


def make_scores(effect=0.0, weak_only=False, seed=0, people=12, seeds=3):
    """Scores of two methods and three modes; mmd-conditional gains `effect` at its middle weight."""
    rng = np.random.default_rng(seed)
    person = np.linspace(0.4, 0.8, people)[:, None] + np.zeros(seeds)
    rows = []

    def add(scores, *setting):
        rows.extend(
            ("erp", "subject", s, *setting, p, scores[p, s]) for p in range(people) for s in range(seeds)
        )

    def noise():
        return person + 0.01 * rng.normal(size=(people, seeds))

    for mode in ("marginal", "conditional"):
        add(noise(), "none", mode, 0.0, "batches")
    add(noise(), "none", "marginal", 0.0, "shuffle")
    for method in ("mmd", "adv"):
        for mode in ("marginal", "conditional", "complementary"):
            for weight in WEIGHTS:
                planted = effect * ((method, mode, weight) == ("mmd", "conditional", 0.3))
                add(noise() + planted * ((person < 0.6) | (not weak_only)), method, mode, weight, "censored")
        add(noise() - 0.05, method, "conditional", -0.3, "reveal")
        add(noise(), method, "conditional", 0.3, "labels")
    columns = ["recording", "base", "seed", "method", "mode", "weight", "control", "subject", "score"]
    return pd.DataFrame(rows, columns=columns)


def make_leakage(scores):
    rows = scores.drop(columns=["subject", "score"]).drop_duplicates()
    fall = {0.0: 0.9, 0.1: 0.8, 0.3: 0.4, 1.0: 0.3}
    parts = [rows.assign(probe=probe) for probe in ("marginal", "conditional", "complementary")]
    frame = pd.concat(parts, ignore_index=True).assign(chance=0.1)
    frame["accuracy"] = frame["weight"].abs().map(fall)
    frame.loc[frame["method"] == "adv", "accuracy"] = 0.9
    frame.loc[frame["control"] == "shuffle", "accuracy"] = 0.7
    return frame


def all_tables(effect, **options):
    scores = make_scores(effect, **options)
    gains = tables.read_gains(scores)
    leakage = make_leakage(scores)
    by_weight = tables.gains_by_weight(gains, leakage)
    cost = pd.DataFrame(
        [("erp", "subject", 60, 90.0, 300)],
        columns=["recording", "base", "trainings", "seconds", "max_steps"],
    )
    return {
        "answers": tables.answers(gains),
        "settings": tables.gains_by_setting(gains),
        "controls": tables.controls(gains, leakage),
        "weights": by_weight,
        "half": tables.costs_of_half(by_weight),
        "sets": tables.seed_sets(scores),
        "again": pd.DataFrame(),
        "cost": cost,
    }


@pytest.fixture(scope="module")
def planted():
    return all_tables(0.05)


@pytest.fixture(scope="module")
def nothing():
    return all_tables(0.0)


def test_a_planted_gain_is_found_and_its_weight_named(planted):
    row = planted["answers"].set_index("group").loc["all"]
    assert row["gain"] == pytest.approx(0.05, abs=0.01) and row["p_holm"] < 0.01 and row["censored"] == 1.0
    best = planted["settings"].set_index(["group", "method", "mode"]).loc[("all", "mmd", "conditional")]
    assert best["weight"] == 0.3 and best["p_holm"] < 0.01
    others = planted["settings"].query("method == 'adv'")
    assert (others["p_holm"] > 0.05).all()


def test_nothing_is_found_where_nothing_is(nothing):
    assert (nothing["answers"]["p_holm"] > 0.05).all() and (nothing["settings"]["p_holm"] > 0.05).all()
    assert nothing["answers"]["gain"].abs().max() < 0.01
    assert (nothing["settings"]["p_holm"] >= nothing["settings"]["p"]).all()


def test_a_gain_of_the_weak_alone_is_theirs():
    found = all_tables(0.06, weak_only=True)["answers"].set_index("group")["gain"]
    assert found["weak"] == pytest.approx(0.06, abs=0.01) and found["all"] == pytest.approx(0.03, abs=0.01)


def test_controls_are_told_apart(nothing):
    found = nothing["controls"].groupby("control")["gain"].mean()
    assert found["reveal"] == pytest.approx(-0.05, abs=0.01)
    assert abs(found["labels"]) < 0.01 and abs(found["batches"]) < 0.01
    # less chance: 0.3 with a weight of 0.3 either way, 0.8 without one or by an adversary, 0.6 with plain batches
    left = nothing["controls"].set_index(["control", "method", "mode"])["share"]
    assert left["labels", "mmd", "conditional"] == pytest.approx(0.375)
    assert left["reveal", "adv", "conditional"] == pytest.approx(1)
    assert left["batches", "none", "marginal"] == pytest.approx(0.8 / 0.6)


def test_the_weight_that_halves_leakage(planted):
    half = planted["half"].set_index(["method", "mode"])
    row = half.loc[("mmd", "conditional")]
    # 0.4 less chance is 0.3, of 0.8: less than half
    assert row["weight"] == 0.3 and row["gain"] == pytest.approx(0.05, abs=0.01)
    assert row["falls"] and row["least"] == pytest.approx(0.25)
    assert np.isnan(half.loc[("adv", "marginal"), "weight"]) and not half.loc[("adv", "marginal"), "falls"]


def test_the_page_says_it_plainly(planted, nothing):
    assert "On top of `person` (300 steps, 3 seeds) censoring **helps**: +0.0" in as_markdown(planted)
    text = as_markdown(nothing)
    assert (
        "On top of `person` (300 steps, 3 seeds) **no gain** was found" in text
        and "probability of 80 %" in text
    )
    assert "60 trainings, 1.5 minutes" in text and "nan" not in text
    assert "chosen by nobody, 0 of 3 settings help and 0 hurt after correction;" in text
    assert "chosen by nobody, 1 of 3 settings help and 0 hurt after correction (erp on `person` 1 and 0)" in (
        as_markdown(planted)
    )
    assert (
        "Some weight lowers leakage in 3 of 6 settings" in text and "the smallest; and by half in 3," in text
    )
    assert "network leaks, in 3 of them the largest weight more" in text
    details = as_details(nothing)
    assert details.count("| mmd | conditional | ") >= 2 and "not reached" in details and "nan" not in details


def test_leakage_of_wide_networks_is_told_weight_by_weight(nothing):
    assert "weight by weight" not in as_markdown(nothing)
    weights = pd.DataFrame(
        {
            "recording": ["erp", "emg", "erp", "emg", "emg"],
            "base": ["subject-wide", "euclidean-wide", "subject-wide", "euclidean-wide", "subject"],
            "method": "adv",
            "mode": "marginal",
            "weight": [0.1, 0.1, 0.03, 0.03, 0.03],
            "share": [0.6, -0.2, 0.7, 0.9, 0.0],
            "gain": [-0.01, 0.0, 0.01, 0.03, 1.0],
        }
    )
    text = as_markdown({**nothing, "weights": weights})
    assert "| adv | marginal | 0.03, 0.1 | 0.80, 0.30 | +0.020, -0.005 |" in text


def test_a_method_without_trainings_is_named(nothing):
    assert "no such trainings" not in as_markdown(nothing)
    settings = nothing["settings"]
    part = settings[settings["method"] == "mmd"].assign(base="euclidean")
    text = as_markdown({**nothing, "settings": pd.concat([settings, part])})
    assert "there are no such trainings: adv on `euclidean` (erp)." in text


def test_either_half_of_the_seeds_says_the_same():
    found = all_tables(0.05, seeds=4)
    sets = found["sets"]
    assert sets["seeds"].tolist() == ["0 to 1", "2 to 3"]
    assert (sets["p_holm"] < 0.05).all() and (sets["helps"] == 1).all() and (sets["hurts"] == 0).all()
    assert sets["gain"].mean() == pytest.approx(found["answers"]["gain"].iloc[0], abs=0.005)
    text = as_markdown(found)
    assert "two halves of the seeds" in text and "| 2 to 3 |" in text and "1 of 3 | 0 of 3 |" in text
    assert tables.seed_sets(make_scores()).empty


def test_halves_of_the_seeds_are_corrected_for_all_recipes_of_the_recording():
    scores = pd.concat([make_scores(0.01, seeds=4).assign(base=base) for base in ("subject", "euclidean")])
    together, alone = tables.seed_sets(scores), tables.seed_sets(scores[scores["base"] == "subject"])
    assert together["base"].tolist() == ["euclidean"] * 2 + ["subject"] * 2
    assert alone["p_holm"].max() < 1
    # the same scores twice are twice as many tests
    np.testing.assert_allclose(together["p_holm"].tail(2), np.minimum(1, 2 * alone["p_holm"]))


def test_a_second_run_is_held_against_the_first(nothing):
    scores = make_scores()
    same = tables.compare(scores, scores[scores["seed"] == 1])
    assert (same["equal"] == same["people"]).all() and (same["people"] == 12).all()
    other = scores[(scores["seed"] == 0) & (scores["method"] == "adv")].copy()
    other.loc[other["subject"] == 3, "score"] += 0.24
    found = tables.compare(scores, other)
    assert set(found["method"]) == {"adv"} and (found["equal"] == 11).all()
    np.testing.assert_allclose(found["difference"], 0.24 / 12)
    text = as_markdown({**nothing, "again": found})
    assert "121 of 132 scores of a person are the same" in text and "differs by 0.0200 at most" in text
    assert "once more" not in as_markdown(nothing)


def test_single_seeds_are_told(planted):
    """The gain lies between those of single seeds, which differ."""
    row = planted["answers"].set_index("group").loc["all"]
    assert row["lowest"] < row["gain"] < row["highest"] < row["lowest"] + 0.02


def test_a_seed_with_which_not_everybody_was_tested_is_no_seed_to_tell():
    """A lone person's gain is not that of a seed."""
    scores = make_scores(0.05)
    planted = (scores["method"] == "mmd") & (scores["mode"] == "conditional") & (scores["weight"] == 0.3)
    lone = planted & (scores["seed"] == 2) & (scores["subject"] == 0)
    scores.loc[lone, "score"] += 0.5
    scores = scores[lone | ~planted | (scores["seed"] != 2)]
    row = tables.answers(tables.read_gains(scores)).set_index("group").loc["all"]
    assert 0.03 < row["lowest"] < row["highest"] < 0.07


@pytest.mark.parametrize(
    ("shares", "falls"),
    [([0.8], True), ([1.1], False), ([0.9, 0.7], True), ([0.5, 0.7], False), ([1.2, 1.1], False)],
)
def test_leakage_falls_if_it_is_below_the_smallest_weight_and_the_uncensored_network(shares, falls):
    rows = {"recording": "r", "base": "b", "method": "mmd", "mode": "marginal", "weight": range(len(shares))}
    table = pd.DataFrame({**rows, "share": shares, "gain": 0.0, "low": 0.0, "high": 0.0})
    assert tables.costs_of_half(table)["falls"].tolist() == [falls]
