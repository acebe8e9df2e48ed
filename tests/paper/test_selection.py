"""Selection rules against known answers."""

import numpy as np
import pandas as pd
import pytest

from braindecode_censor.paper.selection import apply_rules, best_of_each_method, choose, summarise
from braindecode_censor.paper.statistics import compare, lower_quartile, seed_spread

# validation and test scores of five subjects
SCORES = {
    "baseline": ([0.70, 0.71, 0.72, 0.73, 0.74], [0.6, 0.6, 0.6, 0.6, 0.6]),
    "steady": ([0.60, 0.65, 0.66, 0.67, 0.68], [0.7, 0.5, 0.6, 0.8, 0.9]),
    "brilliant": ([0.40, 0.50, 0.95, 0.95, 0.95], [0.9, 0.8, 0.9, 0.8, 0.9]),
}


def frame(seeds=(0,)):
    rows = [
        ("baseline" if name == "baseline" else "mmd" if name == "steady" else "adv", name, seed, k, *pair)
        for name, (valid, test) in SCORES.items()
        for seed in seeds
        for k, pair in enumerate(zip(test, valid))
    ]
    return pd.DataFrame(rows, columns=["method", "setting", "seed", "subject", "score", "score_valid"])


def test_rules_select_by_their_statistic():
    scores = frame()
    # quartiles of validation: 0.71, 0.65, 0.50; means: 0.72, 0.652, 0.75; quartiles of test: 0.6, 0.6, 0.8
    assert choose(scores, "paper") == "steady"
    assert choose(scores, "paper+baseline") == "baseline"
    assert choose(scores, "mean") == "brilliant"
    assert choose(scores, "oracle") == "brilliant"
    with pytest.raises(ValueError, match=r"rule='median' is unknown"):
        choose(scores, "median")
    with pytest.raises(ValueError, match="nothing to choose from"):
        choose(scores[scores["method"] == "baseline"], "paper")


def test_seeds_are_averaged_before_the_quartile():
    """Reversing one seed's scores changes the quartile of the averages, but not the pooled quartile."""
    scores = frame(seeds=(0, 1))
    steady = scores["setting"] == "steady"
    scores.loc[steady & (scores["seed"] == 1), "score_valid"] = [0.68, 0.67, 0.66, 0.65, 0.60]
    averaged = lower_quartile(scores[steady].groupby("subject")["score_valid"].mean())
    pooled = lower_quartile(scores.loc[steady, "score_valid"])
    assert averaged == pytest.approx(0.64) and pooled == pytest.approx(0.65)
    # A rival in between wins by the averages and would lose by the pooled scores.
    rival = scores[steady].assign(setting="rival", score_valid=0.645)
    assert choose(pd.concat([scores, rival], ignore_index=True), "paper") == "rival"
    weaker = rival.assign(score_valid=0.635)
    assert choose(pd.concat([scores, weaker], ignore_index=True), "paper") == "steady"


def test_best_of_each_method_ignores_failed_trainings():
    rows = [("mmd", f"m{k}", k / 10) for k in range(5)] + [("adv", "a0", np.nan), ("adv", "a1", 0.1)]
    scores = pd.DataFrame(rows, columns=["method", "setting", "score_valid"])
    assert best_of_each_method(scores) == ["m4", "m3", "m2", "a1"]


def test_table_has_all_decoders_and_gains_over_the_baseline():
    scores = frame(seeds=(0, 1))
    table = summarise(scores, apply_rules(scores))
    assert list(table.index[:3]) == ["baseline", "adv", "mmd"]
    row = table.loc["AutoTransfer (paper)"]
    assert row["setting"] == "steady" and row["seeds"] == 2
    assert row["gain"] == pytest.approx(0.1) and row["worst"] == 0.5
    assert table.loc["baseline", "p"] == 1


def test_statistics_against_known_answers():
    result = compare([0.7, 0.8, 0.9, 0.75, 0.85], [0.6, 0.6, 0.6, 0.6, 0.6])
    assert result["p"] == pytest.approx(2 / 2**5) and result["effect"] == 1  # all five moved up
    assert 0.1 <= result["low"] <= result["gain"] <= result["high"] <= 0.3
    assert compare([0.5, 0.5], [0.5, 0.5]) == {"gain": 0, "p": 1, "effect": 0, "low": 0, "high": 0}


def test_gain_within_the_spread_of_seeds_is_not_distinguishable():
    rng = np.random.default_rng(0)
    baseline = 0.6 + 0.05 * rng.standard_normal((8, 5))
    assert seed_spread(baseline + 0.1, baseline)["distinguishable"] is True
    assert seed_spread(rng.permuted(baseline, axis=1), baseline)["distinguishable"] is False
    assert seed_spread(baseline[:, :1], baseline[:, :1])["distinguishable"] is None
