"""The table of tiers by hand."""

import numpy as np
import pandas as pd
import pytest

from studies.transfer.tiers_table import TIERS, as_markdown, tiers_table

DECODERS = [("none", "paper", "network", 0.0), ("unlabeled", "paper", "network", 0.2)]
DECODERS += [("unlabeled", "riemann", "classical", 0.05), ("unlabeled", "power", "classical", 0.01)]
DECODERS += [("none", "riemann", "classical", 0.02), ("none", "power", "classical", 0.03)]
DECODERS += [(tier, "family, averaged", "combination", 0.1 * k) for k, tier in enumerate(TIERS, 1)]
DECODERS += [("stream", "best one", "combination", 0.25), ("none", "family, all seeds", "combination", 0.12)]
DECODERS += [("stream", "best 3, averaged", "combination", 0.28)]


@pytest.fixture
def scores():
    base = np.random.default_rng(0).uniform(0.3, 0.6, (6, 2))
    rows = [
        ("r", target, decoder, kind, person, seed, base[person, seed] + gain)
        for target, decoder, kind, gain in DECODERS
        for person in range(6)
        for seed in range(2)
    ]
    return pd.DataFrame(rows, columns=["recording", "target", "decoder", "kind", "subject", "seed", "score"])


def test_the_paper_knows_nothing_and_every_tier_has_its_row(scores):
    table = tiers_table(scores).set_index("tier")
    plain = scores[(scores["decoder"] == "paper") & (scores["target"] == "none")]
    plain = plain.groupby("subject")["score"].mean()
    assert list(table.index) == list(TIERS)
    np.testing.assert_allclose(table["paper"], plain.mean())
    np.testing.assert_allclose(table["gain"], [0.1, 0.2, 0.3, 0.4, 0.5])
    assert (table["gainers"] == 6).all()
    family = plain + 0.4
    found = table.loc["unlabeled", ["mean", "lower_quartile", "worst"]].astype(float)
    np.testing.assert_allclose(found, [family.mean(), family.quantile(0.25), family.min()])


def test_every_tier_is_compared_with_its_own_best_classical_decoder(scores):
    table = tiers_table(scores).set_index("tier")
    assert table["classical_name"].dropna().to_dict() == {"none": "power", "unlabeled": "riemann"}
    assert table.loc["none", "over_classical"] == pytest.approx(0.1 - 0.03)
    assert table.loc["unlabeled", "over_classical"] == pytest.approx(0.4 - 0.05)
    assert table.loc["none", "together"] - table.loc["none", "mean"] == pytest.approx(0.02)
    assert table["best_one"].notna().to_dict() == {tier: tier == "stream" for tier in TIERS}
    assert table.loc["stream", "best_three"] - table.loc["stream", "best_one"] == pytest.approx(0.03)


def test_people_who_were_not_tested_are_left_out(scores):
    lost = (scores["subject"] == 0) & (scores["target"] == "labeled-5")
    scores.loc[lost, "score"] = np.nan
    row = tiers_table(scores).set_index("tier").loc["labeled-5"]
    assert row["people"] == row["gainers"] == 5 and row["gain"] == pytest.approx(0.5)


def test_what_was_not_run_has_no_row(scores):
    few = scores[(scores["target"] != "stream") & (scores["kind"] != "classical")]
    table = tiers_table(few)
    assert set(table["tier"]) == set(TIERS) - {"stream"} and "classical" not in table


def test_in_words(scores):
    cost = pd.DataFrame({"recording": ["r", "r"], "trainings": [40, 40], "seconds": [60.0, 30.0]})
    text = as_markdown(tiers_table(scores, cost))
    assert "| r | causal stream | " in text and "+0.300" in text and "riemann" in text
    assert "Trainings: r 80 in 1.5 minutes." in text and "nan" not in text
    assert "Trainings" not in as_markdown(tiers_table(scores))
