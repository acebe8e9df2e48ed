"""What censoring adds to a candidate: known answers on made-up scores."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from studies.censoring.candidates import as_markdown, censored_table

PEOPLE, SEEDS = 12, 3


def scores_of(**decoders):
    """Return scores of decoders given as arrays of people and seeds, all in one tier of one recording."""
    rows = [
        ("here", "unlabeled", name.replace("_", "+"), "network", person, seed, score)
        for name, table in decoders.items()
        for (person, seed), score in np.ndenumerate(table)
    ]
    return pd.DataFrame(rows, columns=["recording", "target", "decoder", "kind", "subject", "seed", "score"])


@pytest.fixture
def plain():
    return np.random.default_rng(0).uniform(0.5, 0.8, (PEOPLE, SEEDS))


def test_the_gain_is_over_the_same_candidate_person_and_seed(plain):
    noise = np.random.default_rng(1).normal(0, 0.01, plain.shape)
    scores = scores_of(a=plain, b=plain - 0.3, a_good=plain + 0.1 + noise, b_bad=plain - 0.4 + noise)
    table = censored_table(scores.sample(frac=1, random_state=0)).set_index("candidate")  # in any order
    assert set(table.index) == {"a+good", "b+bad"}
    assert table.loc["a+good", "without"] == pytest.approx(plain.mean())
    assert table.loc["a+good", "gain"] == pytest.approx(0.1 + noise.mean())
    assert table.loc["b+bad", "gain"] == pytest.approx(-0.1 + noise.mean())
    assert (table["low"] < table["gain"]).all() and (table["gain"] < table["high"]).all()


def test_p_is_corrected_within_a_recording(plain):
    person = np.random.default_rng(2).normal(0.01, 0.02, (PEOPLE, 1)).repeat(SEEDS, axis=1)
    one = censored_table(scores_of(a=plain, a_x=plain + person))
    assert one["p"].item() == pytest.approx(ttest_1samp(person[:, 0], 0).pvalue, abs=0.02)
    many = censored_table(scores_of(a=plain, a_x=plain + person, a_y=plain - person, a_z=plain + person))
    np.testing.assert_allclose(many["p"], min(1, 3 * one["p"].item()), rtol=1e-6)
    elsewhere = scores_of(a=plain, a_x=plain + person).assign(recording="there")
    both = censored_table(pd.concat([scores_of(a=plain, a_x=plain + person), elsewhere]))
    np.testing.assert_allclose(both["p"], one["p"].item(), rtol=1e-6)


def test_what_has_no_uncensored_one_is_left_out(plain):
    scores = scores_of(a=plain, c_x=plain)
    assert censored_table(scores).empty and as_markdown(censored_table(scores)) == ""


def test_a_tier_that_a_recording_lacks_is_an_empty_cell(plain):
    scores = scores_of(a=plain, a_x=plain + 0.1 + np.random.default_rng(4).normal(0, 0.01, plain.shape))
    both = pd.concat([scores.assign(target="none"), scores, scores.assign(recording="there")])
    header, _, here, there = as_markdown(censored_table(both)).splitlines()
    where = [header.split(" | ").index(name) for name in ("nothing known", "all unlabelled")]
    assert [bool(here.split(" | ")[k].strip()) for k in where] == [True, True]
    assert [bool(there.split(" | ")[k].strip()) for k in where] == [False, True]


def test_only_a_gain_beyond_noise_is_bold(plain):
    noise = np.random.default_rng(3).normal(0, 0.05, plain.shape)
    scores = scores_of(a=plain, a_sure=plain + 0.1, a_unsure=plain + noise - noise.mean())
    text = as_markdown(censored_table(scores))
    assert "| here | `a+sure` | **+0.100** (" in text and "`a+unsure` | +0.000 (" in text.replace(
        "-0.000 (", "+0.000 ("
    )
