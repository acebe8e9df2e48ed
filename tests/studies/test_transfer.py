"""The transfer study: target data, scores of all seeds, tables by hand, figures and the script."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from braindecode_censor.search.heldout import HeldOut
from studies.transfer import censored, plot, run
from studies.transfer.scores import ALL_SEEDS, RULE_LABELS, score_seeds
from studies.transfer.study import StudyResult
from studies.transfer.table import compare_targets
from studies.transfer.target_data import TARGET_DATA, decode_with

SCORES = ["recording", "target", "decoder", "kind", "subject", "seed", "score"]


@pytest.fixture(scope="module")
def results(recording, tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    args = ["--data", str(recording), "--out", str(out), "--seeds", "2", "--device", "cpu", "--candidates"]
    run.main([*args, "riemann", "power"])
    return out, args


def test_run_scores_every_subject_with_all_target_data(results):
    tables = run.read_tables(results[0], run.TABLES)
    scores = tables["scores"]
    assert len(scores) == len(TARGET_DATA) * 4 * (2 * (2 + len(RULE_LABELS)) + 1)
    assert scores["score"].between(0, 1).all()
    means = scores[scores["decoder"] == "riemann"].groupby("target")["score"].mean()
    assert means["unlabeled"] > means["none"]
    np.testing.assert_allclose(tables["weights"].groupby(["target", "seed"])["weight"].sum(), 1, atol=1e-4)
    assert tables["cost"]["trainings"].tolist() == [12, 12]


def test_run_adds_candidates_without_repeating_trainings(results):
    out, args = results
    store = out / "tiny" / "trainings"
    before = {path: path.stat().st_mtime_ns for path in store.glob("*.training")}
    scores = run.read_tables(out, run.TABLES)["scores"]
    run.main([*args, "riemann", "power", "hjorth"])
    after = {path: path.stat().st_mtime_ns for path in store.glob("*.training")}
    assert before.items() <= after.items() and len(after) == 1.5 * len(before)
    keys = ["target", "seed", "decoder", "subject"]
    single = scores[scores["kind"] == "classical"].set_index(keys)["score"]
    again = run.read_tables(out, run.TABLES)["scores"].set_index(keys)["score"]
    pd.testing.assert_series_equal(again.loc[single.index], single)


class Recorder:
    """A decoder that records which trials it adapts to and which it decodes."""

    classes_, adapted, last = np.arange(2), (None, None), None

    def adapt(self, X, y=None):
        model = Recorder()
        model.adapted = len(X), y
        return model

    def predict_proba(self, X):
        Recorder.last = (*self.adapted, len(X))
        return np.full((len(X), 2), 0.5)


@pytest.mark.parametrize(
    ("target", "n_adapted", "n_decoded"),
    [("none", None, 20), ("unlabeled", 20, 20), ("unlabeled-20p", 4, 16), ("labeled-5", 10, 10)],
)
def test_target_data_decides_what_a_decoder_knows(target, n_adapted, n_decoded):
    X, y = np.zeros((20, 2, 8)), np.arange(20) % 2
    probabilities = decode_with(target, Recorder(), X, y, 2)
    adapted, labels, decoded = Recorder.last
    assert (adapted, decoded) == (n_adapted, n_decoded)
    assert np.isfinite(probabilities).all(axis=1).sum() == n_decoded
    assert (labels is None) == (target != "labeled-5")
    if labels is not None:  # The first trials are labelled, the later ones are decoded.
        assert np.isnan(probabilities[:10]).all() and (labels == y[:10]).all()


def test_labelled_target_data_leave_a_trial_of_every_class():
    y = np.arange(2)
    assert np.isfinite(decode_with("labeled-5", Recorder(), np.zeros((2, 2, 8)), y, 2)).all()
    assert Recorder.last == (None, None, 2)
    with pytest.raises(ValueError, match="target='other' is unknown"):
        decode_with("other", Recorder(), np.zeros((2, 2, 8)), y, 2)


def test_all_seeds_are_one_search_with_all_partners(rng):
    labels, folds = [rng.integers(0, 2, 30) for _ in range(4)], [[(0, 1), (2, 3)], [(1, 2), (0, 3)]]
    whole, heldout = HeldOut(labels, folds[0] + folds[1]), {}
    for seed, pairs in enumerate(folds):
        part = HeldOut(labels, pairs)
        for name, skill in (("good", 0.4), ("bad", 0.1)):
            for position, pair in enumerate(pairs):
                sure = {s: 0.5 + skill * (2 * labels[s] - 1) + rng.normal(0, 0.2, 30) for s in pair}
                proba = {s: np.stack([1 - p.clip(0, 1), p.clip(0, 1)], 1) for s, p in sure.items()}
                part.add(name, position, proba)
                whole.add(name, 2 * seed + position, proba)
        heldout[seed] = {"none": part}
    kinds = {"good": "network", "bad": "classical"}
    scores = score_seeds(StudyResult(heldout, kinds, pd.DataFrame()))
    together = scores[scores["decoder"] == ALL_SEEDS].set_index("subject")["score"]
    np.testing.assert_array_equal(together, whole.nested_scores(["good", "bad"]))
    each = scores[scores["decoder"] == RULE_LABELS["greedy"]].groupby("seed")["score"].mean()
    assert set(each.index) == {0, 1} and together.mean() > each.mean()


DECODERS = [("none", "paper", "network", 0.0), ("unlabeled", "paper", "network", 0.2)]
DECODERS += [("unlabeled", "riemann", "classical", 0.05), ("unlabeled", "power", "classical", 0.01)]
DECODERS += [("none", "riemann", "classical", 0.02), ("none", "power", "classical", 0.03)]
DECODERS += [
    (target, RULE_LABELS["greedy"], "combination", 0.1 * k) for k, target in enumerate(TARGET_DATA, 1)
]
DECODERS += [("stream", RULE_LABELS["pick"], "combination", 0.25), ("none", ALL_SEEDS, "combination", 0.12)]


@pytest.fixture
def scores(rng):
    base = rng.uniform(0.3, 0.6, (6, 2))
    rows = [
        ("r", target, decoder, kind, subject, seed, base[subject, seed] + gain)
        for target, decoder, kind, gain in DECODERS
        for subject in range(6)
        for seed in range(2)
    ]
    return pd.DataFrame(rows, columns=SCORES)


def test_gain_is_over_the_paper_without_target_data(scores):
    table = compare_targets(scores).set_index("target")
    plain = (
        scores[(scores["decoder"] == "paper") & (scores["target"] == "none")]
        .groupby("subject")["score"]
        .mean()
    )
    assert list(table.index) == list(TARGET_DATA)
    np.testing.assert_allclose(table["paper"], plain.mean())
    np.testing.assert_allclose(table["gain"], [0.1, 0.2, 0.3, 0.4, 0.5])
    assert (table["n_gain"] == 6).all()
    ensemble, row = plain + 0.4, table.loc["unlabeled"]
    assert row["mean"] == pytest.approx(ensemble.mean()) and row["worst"] == pytest.approx(ensemble.min())
    assert row["lower_quartile"] == pytest.approx(ensemble.quantile(0.25))


def test_classical_candidate_is_the_best_with_the_same_target_data(scores):
    table = compare_targets(scores).set_index("target")
    assert table["classical_name"].dropna().to_dict() == {"none": "power", "unlabeled": "riemann"}
    assert table.loc["none", "over_classical"] == pytest.approx(0.1 - 0.03)
    assert table.loc["none", "together"] - table.loc["none", "mean"] == pytest.approx(0.02)


def censored_scores(**decoders):
    """Return scores of decoders from arrays (n_subjects, n_seeds), with one kind of target data."""
    rows = [
        ("here", "unlabeled", name.replace("_", "+"), "network", subject, seed, score)
        for name, table in decoders.items()
        for (subject, seed), score in np.ndenumerate(table)
    ]
    return pd.DataFrame(rows, columns=SCORES)


def test_censored_gain_is_over_the_same_candidate_subject_and_seed(rng):
    plain, noise = rng.uniform(0.5, 0.8, (12, 3)), rng.normal(0, 0.01, (12, 3))
    scores = censored_scores(
        a=plain, b=plain - 0.3, a_good=plain + 0.1 + noise, b_bad=plain - 0.4 + noise, c_x=plain
    )
    table = censored.compare_censored(scores.sample(frac=1, random_state=0)).set_index("candidate")
    assert set(table.index) == {"a+good", "b+bad"}  # There is no uncensored c.
    assert table.loc["a+good", "uncensored"] == pytest.approx(plain.mean())
    assert table.loc["a+good", "gain"] == pytest.approx(0.1 + noise.mean())
    assert table.loc["b+bad", "gain"] == pytest.approx(-0.1 + noise.mean())
    text = censored.as_markdown(table.reset_index())
    assert "| here | `a+good` | **+0.1" in text


def test_censored_p_is_corrected_within_a_recording(rng):
    plain = rng.uniform(0.5, 0.8, (12, 3))
    gain = rng.normal(0.01, 0.02, (12, 1)).repeat(3, axis=1)
    single = censored_scores(a=plain, a_x=plain + gain)
    p = censored.compare_censored(single)["p"].item()
    assert p == pytest.approx(ttest_1samp(gain[:, 0], 0).pvalue, abs=0.02)
    several = censored_scores(a=plain, a_x=plain + gain, a_y=plain - gain, a_z=plain + gain)
    np.testing.assert_allclose(censored.compare_censored(several)["p"], min(1, 3 * p), rtol=1e-6)
    both = pd.concat([single, single.assign(recording="there")])
    np.testing.assert_allclose(censored.compare_censored(both)["p"], p, rtol=1e-6)


def test_plot_writes_figures_beside_results_and_one_for_the_documentation(results, tmp_path):
    plot.main(["--results", str(results[0])])
    names = {path.stem for path in results[0].glob("transfer_*.p*")}
    assert names == {f"transfer_{name}" for name in ("leaderboard", "subjects", "targets", "weights")}
    (tmp_path / "_static").mkdir()
    plot.main(["--results", str(results[0]), "--docs", str(tmp_path)])
    assert [path.name for path in (tmp_path / "_static").iterdir()] == ["transfer_targets.png"]
    assert "| tiny | streamed |" in (tmp_path / "results" / "tiers.md").read_text()
