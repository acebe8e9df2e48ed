"""The censoring study: arms and folds, trainings without held-out subjects, and a table that shows planted gains."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor.paper.grid import METHODS
from braindecode_censor.run.training import TrialData
from braindecode_censor.search.family import BASELINE, find_candidates
from studies.censoring import run, table
from studies.censoring.study import MODES, CensoringStudy, make_arms, make_folds, shuffle_subjects

OPTIONS = {"folds": 2, "levels": [1.0], "control_modes": ["conditional"], "methods": ["mmd"], "max_steps": 3}


def test_arms_are_all_methods_modes_and_weights_with_their_controls():
    arms = make_arms(find_candidates(["euclidean"])[0][0], [0.1, 1, 10], ["conditional"])
    censored = [arm for arm in arms if arm.control == "censored"]
    assert len({(arm.method, arm.mode) for arm in censored}) == len(METHODS) * len(MODES) == 15
    assert len(censored) == 45 and len(set(arms)) == len(arms)
    assert {arm.weight for arm in censored if arm.method == "adv"} == {0.003, 0.03, 0.3}
    reveal = [arm for arm in arms if arm.control == "reveal"]
    assert len(reveal) == 5 and all(arm.weight < 0 for arm in reveal)
    assert sum(arm.control == "labels" for arm in arms) == 5


def test_folds_hold_out_every_subject_once_and_depend_on_the_seed():
    for seed in range(3):
        assert sorted(np.concatenate(make_folds(7, 3, seed))) == list(range(7))
    assert not np.array_equal(make_folds(7, 3, 0)[0], make_folds(7, 3, 1)[0])


def test_shuffled_labels_keep_classes_the_validation_subject_and_held_out_subjects(trials):
    shuffled = shuffle_subjects(trials, [1, 2, 3], 2, 0)
    for subject in (0, 2):
        np.testing.assert_array_equal(shuffled == subject, trials.subjects == subject)
    counts = [pd.crosstab(labels, trials.y).to_numpy() for labels in (shuffled, trials.subjects)]
    np.testing.assert_array_equal(*counts)
    assert (shuffled != trials.subjects).mean() > 0.2


@pytest.fixture(scope="module")
def tables(trials, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return folder, CensoringStudy(trials, 64.0, folder, "subject", **OPTIONS).run(3)


def test_study_has_scores_and_leakage_of_every_arm(tables):
    scores, leakage, cost = (tables[1][name] for name in ("scores", "leakage", "cost"))
    arms = ["method", "mode", "weight", "control"]
    assert (scores.groupby(arms)["subject"].nunique() == 4).all() and scores["score"].between(0, 1).all()
    assert len(scores) == 8 * 4 and set(leakage["probe"]) == set(MODES)
    assert len(leakage) == 8 * 3 and (leakage["chance"] == 0.5).all()  # two training subjects
    assert cost[["trainings", "max_steps"]].to_numpy().tolist() == [[16, 3]]


def test_score_is_that_of_the_candidate_fitted_without_the_held_out_subjects(tables, trials):
    test = make_folds(4, 2, 3)[0]
    estimator = find_candidates(["subject+mmd-conditional"])[0][0].make((4, 64), 64.0, 3000, "cpu", 3)
    train = ~np.isin(trials.subjects, test)
    estimator.fit(trials.X[train], trials.y[train], subjects=trials.subjects[train])
    scores = tables[1]["scores"].query("method == 'mmd' and mode == 'conditional' and control == 'censored'")
    for subject in test:
        is_own = trials.subjects == subject
        predicted = estimator.adapt(trials.X[is_own]).predict(trials.X[is_own])
        expected = balanced_accuracy_score(trials.y[is_own], predicted)
        assert scores.set_index("subject").loc[subject, "score"] == pytest.approx(expected)


def test_finished_trainings_are_not_repeated_and_another_weight_is_trained(tables, trials):
    folder, before = tables
    n_files = len(list(folder.rglob("*.training")))
    study = CensoringStudy(trials, 64.0, folder, "subject", **{**OPTIONS, "levels": [1.0, 3.0]})
    scores = study.run(3)["scores"]
    # Model and arrays, three modes, two folds.
    assert len(list(folder.rglob("*.training"))) == n_files + 2 * 3 * 2
    keys = ["method", "mode", "weight", "control", "subject"]
    scores, old = (frame.set_index(keys)["score"] for frame in (scores, before["scores"]))
    pd.testing.assert_series_equal(scores.loc[old.index], old)


def test_labels_of_held_out_subjects_do_not_reach_a_training(trials, tmp_path):
    test = make_folds(4, 2, 0)[0]
    flipped = np.where(np.isin(trials.subjects, test), 1 - trials.y, trials.y)
    options = {**OPTIONS, "levels": [], "control_modes": []}
    scores = [
        CensoringStudy(TrialData(trials.X, y, trials.subjects), 64.0, tmp_path, BASELINE, **options).run(0)[
            "scores"
        ]
        for y in (trials.y, flipped)
    ]
    first, second = (frame[frame["subject"].isin(test)]["score"].to_numpy() for frame in scores)
    np.testing.assert_allclose(second, 1 - first)


def test_only_mige_is_size_matched(trials, tmp_path):
    for calibrate, weight in ((False, 0.01), (True, 0.1)):
        options = {**OPTIONS, "methods": ["mmd", "mige"], "calibrate": calibrate}
        study = CensoringStudy(trials, 64.0, tmp_path, "subject", **options)
        for arm in study.arms:
            params = study._estimator(arm, 0, 0).get_params()
            assert params.get("penalty__calibrate", False) == (calibrate and arm.method == "mige")
        assert {arm.weight for arm in study.arms if arm.method == "mige" and arm.control == "censored"} == {
            weight
        }


def test_script_writes_tables_and_needs_data(recording, tmp_path, capsys):
    args = f"--out {tmp_path} --seeds 1 --folds 2 --methods --levels --device cpu".split()
    run.main([*args, "--data", str(recording), "--base", "subject", "paper", "--max-steps", "2"])
    scores = pd.read_csv(tmp_path / "scores.csv.gz")
    assert set(scores["base"]) == {"subject", "paper"} and set(scores["recording"]) == {"tiny"}
    with pytest.raises(SystemExit):
        run.main(args)
    assert "--data or --simulated is needed" in capsys.readouterr().err


def make_scores(effect=0.0, n_subjects=12, n_seeds=3):
    """Return scores of two methods in three modes; conditional MMD gains `effect` at its middle weight."""
    rng, rows = np.random.default_rng(0), []
    subject = np.linspace(0.4, 0.8, n_subjects)[:, None] + np.zeros(n_seeds)

    def add(gain, *arm):
        scores = subject + gain + 0.01 * rng.normal(size=subject.shape)
        rows.extend(("erp", "subject", seed, *arm, k, score) for (k, seed), score in np.ndenumerate(scores))

    for mode in ("marginal", "conditional"):
        add(0, "none", mode, 0.0, "batches")
    for method in ("mmd", "adv"):
        weights = (0.1, 0.3, 1.0) if method == "mmd" else (0.01, 0.03, 0.1)
        for mode in MODES:
            for weight in weights:
                is_planted = (method, mode, weight) == ("mmd", "conditional", 0.3)
                add(effect * is_planted, method, mode, weight, "censored")
        add(-0.05, method, "conditional", -0.3, "reveal")
        add(0, method, "conditional", 0.3, "labels")
    columns = ["recording", "base", "seed", "method", "mode", "weight", "control", "subject", "score"]
    return pd.DataFrame(rows, columns=columns)


def make_leakage(scores):
    """Return a subject leakage that MMD halves at its middle weight and that Adv leaves as it is."""
    rows = scores.drop(columns=["subject", "score"]).drop_duplicates()
    leakage = pd.concat([rows.assign(probe=mode, chance=0.1) for mode in MODES], ignore_index=True)
    leakage["accuracy"] = leakage["weight"].abs().map({0.3: 0.5}).fillna(0.9)
    leakage.loc[leakage["method"] != "mmd", "accuracy"] = 0.9
    return leakage


def test_table_shows_a_planted_gain():
    scores = make_scores(0.05)
    row = table.compare_bases(scores, make_leakage(scores)).iloc[0]
    assert row["gain"] == pytest.approx(0.05, abs=0.01) and row["p_holm"] < 0.01 and row["censored"] == 1
    assert (row["censored_n"], row["censored_help"], row["censored_hurt"]) == (6, 1, 0)
    assert (row["labels_help"], row["reveal_help"], row["reveal_hurt"]) == (0, 0, 2)
    assert row["leakage"] == pytest.approx(0.75)  # the median of MMD's half and Adv's whole
    text = table.as_markdown(pd.DataFrame([row]))
    assert "| erp | `subject` | 12 | 3 | 0.6" in text and "1, 0 of 6" in text and "nan" not in text


def test_main_prints_gains_by_weight(tmp_path, capsys):
    scores = make_scores(0.06)
    for name, frame in (("scores", scores), ("leakage", make_leakage(scores))):
        frame.to_csv(tmp_path / f"{name}.csv.gz", index=False)
    table.main(["--results", str(tmp_path), "--by-weight", "subject"])
    (line,) = (
        line.split() for line in capsys.readouterr().out.splitlines() if line.split()[:2] == ["mmd", "0.300"]
    )
    left, gain, _ = map(float, line[2:])
    assert left == 0.5 and gain == pytest.approx(0.02, abs=0.01)
