"""Does the whole method run through MOABB, and refuse what makes no sense?"""

import json
import shutil

import moabb.analysis
import numpy as np
import pandas as pd
import pytest
import torch
from moabb.analysis.results import Results
from moabb.evaluations import CrossSubjectEvaluation
from moabb.paradigms import P300
from safetensors.torch import load_file
from tiny import DATA, GRID, Spoilt, copy_of, experiment, finished, run

from braindecode_censor.datasets import ERP, SimulatedSubjects, paper_scorer, valid_score, with_paper_scores
from braindecode_censor.paper.evaluation import SUFFIX
from braindecode_censor.paper.result import read_result
from braindecode_censor.paper.tables import read_index
from braindecode_censor.storage.trainings import Training, TrainingCache

ONE_EPOCH = {"max_epochs": 1, "batch_size": 16, "module__F1": 2, "module__D": 1}


def test_the_result_is_complete(reference):
    table, scores = reference.table, reference.scores
    assert reference.selected in set(scores["setting"]) - {"baseline"} and reference.chance == 0.5
    assert list(table.index) == [
        "baseline",
        "adv",
        "mmd",
        *(f"AutoTransfer ({rule})" for rule in ("paper", "paper+baseline", "mean", "oracle")),
    ]
    assert len(scores) == 3 * 4 and scores.drop(columns="mode").notna().all(axis=None)
    assert dict(zip(scores["subject"], scores["valid_subject"])) == {1: 2, 2: 3, 3: 4, 4: 1}
    for name in ("scores.csv", "table.csv", "search.csv"):
        assert (reference.out / name).stat().st_size > 0
    assert reference.report is None and not (reference.out / "report.html").exists()
    assert "selected" in reference.as_json() and json.dumps(reference.as_json())


def test_no_training_is_done_twice_and_moabb_does_none_itself(reference):
    """4 settings in the search; 3 settings of 4 folds in the cross-validation, two of them done before."""
    keys = finished(reference.out)
    assert len(keys) == len(set(keys)) == 4 + 3 * 4 - 2
    before = (reference.out / "scores.csv").read_bytes()
    assert experiment(reference.out).plan()["left"] == 0
    again = run(reference.out)
    assert finished(reference.out) == keys
    assert (reference.out / "scores.csv").read_bytes() == before
    pd.testing.assert_frame_equal(again.table, reference.table)


def test_the_provenance_is_written(reference):
    content = json.loads((reference.out / "experiment.json").read_text())
    assert content["provenance"].keys() == {"started", "commit", "machine", "python"}
    identity = content["identity"]
    assert identity["seeds"] == [0] and "torch" in identity["versions"]
    assert identity["classes"] == ["NonTarget", "Target"] and identity["training"]["keep"] == "best"


def test_moabb_reads_the_results_and_analyses_them(reference, tmp_path):
    found = Results(
        CrossSubjectEvaluation, ERP, SUFFIX, hdf5_path=str(reference.out / "moabb")
    ).to_dataframe()
    assert len(found) == 12 and {"score", "score_valid"} <= set(found.columns)
    merged = found.groupby("pipeline")["score"].mean()
    ours = reference.scores.groupby("setting")["score"].mean()
    assert sorted(merged) == pytest.approx(sorted(ours), abs=1e-6)
    moabb.analysis.analyze(found, str(tmp_path), plot=True)
    assert list(tmp_path.rglob("scores.pdf")) and list(tmp_path.rglob("stats.csv"))


def test_scores_are_what_moabb_finds_with_plain_estimators(reference):
    """The fold of the first subject once more, by hand: trained here, not read."""
    from sklearn.metrics import balanced_accuracy_score

    given = experiment(reference.out)
    data = given.recording
    clf = next(s for s in given.preset.grid if s.name == reference.selected)
    from braindecode_censor.paper.jobs import Job

    job = Job(clf, 0, 1)
    seen = job.seen(data)
    fitted = job.estimator(data, given.training).fit(data.X[seen], data.y[seen], subjects=data.subjects[seen])
    expected = balanced_accuracy_score(data.y[~seen], fitted.predict(data.X[~seen]))
    row = reference.scores.query("setting == @reference.selected and subject == 1")
    assert row["score"].item() == pytest.approx(expected)
    assert row["score_valid"].item() == pytest.approx(fitted.valid_score_)


def test_seeds_settings_and_pipelines_can_be_added_to_a_finished_experiment(reference, tmp_path):
    out = copy_of(reference.out, tmp_path / "out")
    before = finished(out)
    more = [*GRID, {"method": "mmd", "mode": "marginal", "weight": 0.2}]
    options = {"seeds": 2, "grid": more, "others": ["riemann"]}
    assert experiment(out, **options).plan()["left"] > 0
    result = run(out, **options)
    assert finished(out)[: len(before)] == before and len(finished(out)) == len(set(finished(out)))
    assert set(result.scores["seed"]) == {0, 1} and 0 < result.table.loc["riemann", "mean"] < 1
    old = reference.scores.merge(result.scores, on=["setting", "seed", "subject"])
    assert (old["score_x"] == old["score_y"]).all() and len(old) >= 8
    assert experiment(out, **options).plan()["left"] == 0
    with pytest.raises(ValueError, match=r"differs in grid, seeds, others"):
        run(out)


def test_somebody_elses_pipeline_runs_beside_ours_and_is_never_chosen(tmp_path):
    from sklearn.dummy import DummyClassifier

    result = run(tmp_path / "out", GRID[:1], others={"guess": DummyClassifier()}, training=ONE_EPOCH)
    assert result.table.loc["guess", "mean"] == 0.5
    assert result.scores.query("setting == 'guess'")["subject"].tolist() == [1, 2, 3, 4]
    assert not any("guess" in str(choice) for choice in result.chosen.values())


def test_the_nested_rule_never_sees_the_test_subject(tmp_path):
    """Subject 3 gets other signals and labels: its fold keeps its choice and every validation score."""
    options = {"grid": GRID[:1], "training": ONE_EPOCH, "dataset_options": None, "nested": True}
    clean, spoilt = (
        run(tmp_path / kind.__name__, dataset=kind(**DATA), **options) for kind in (SimulatedSubjects, Spoilt)
    )
    assert clean.chosen["nested"][3] == spoilt.chosen["nested"][3]
    inner = [pd.read_csv(result.out / "nested.csv").query("subject == 3") for result in (clean, spoilt)]
    pd.testing.assert_frame_equal(*inner)
    # the very same trainings: every weight of the folds without subject 3, search included, is shared
    keys = [set(finished(result.out)) for result in (clean, spoilt)]
    n_inner, n_search = 1 * 3, 2
    shared = keys[0] & keys[1]
    assert len(shared) >= n_inner + n_search - 1
    for name in shared:
        paths = [result.out / "trainings" / f"{name}.safetensors" for result in (clean, spoilt)]
        one, two = (load_file(path) for path in paths)
        assert all(torch.equal(one[key], two[key]) for key in one)
    scores = [r.scores.set_index(["setting", "subject"]).sort_index() for r in (clean, spoilt)]
    chosen = clean.chosen["nested"][3]
    assert scores[0].loc[(chosen, 3), "score_valid"] == scores[1].loc[(chosen, 3), "score_valid"]
    assert scores[0].loc[(chosen, 3), "score"] != scores[1].loc[(chosen, 3), "score"]
    # and it does matter elsewhere, or this would show nothing
    others = [pd.read_csv(result.out / "nested.csv").query("subject != 3") for result in (clean, spoilt)]
    assert not others[0]["score_valid"].equals(others[1]["score_valid"])


NESTED = {"grid": GRID[:1], "nested": True, "top": 2, "training": ONE_EPOCH}


@pytest.fixture(scope="module")
def nested(tmp_path_factory):
    """The plan and the result of an experiment with the nested rule."""
    given = experiment(tmp_path_factory.mktemp("nested") / "out", **NESTED)
    return given.plan(), given.run(report=False)


def test_the_plan_counts_what_is_really_trained(nested):
    plan, result = nested
    assert plan["trainings"] == {"search": 2, "cross_validation": 10, "nested": 6 + 16, "total": 34}
    assert plan["left"] == 34 and "34" in plan["text"] and plan["seconds_at_most"] > 0
    # at most: all settings are kept, so the searches of the outer folds are folds of the cross-validation
    assert len(finished(result.out)) == 12 + 16
    assert experiment(result.out, **NESTED).plan()["left"] == 0


def test_the_nested_rule_survives_a_training_that_diverged(nested, tmp_path):
    _, result = nested
    out = copy_of(result.out, tmp_path / "out")
    name = result.chosen["nested"][1]
    index = read_index(out).set_index(["setting", "subject"])
    diverged = Training(b"", {"error": "The validation loss was never finite", "seconds": 0.0})
    TrainingCache(out / "trainings").write(index.loc[(name, 4), "key"], diverged)
    again = run(out, **NESTED)
    assert name not in set(again.chosen["nested"]) | set(again.scores["setting"])
    assert np.isfinite(again.table.loc["AutoTransfer (nested)", "gain"])


def test_a_paradigm_of_moabb(tmp_path):
    paradigm = P300(resample=64, fmin=1, fmax=20)
    given = experiment(tmp_path, GRID[:1], paradigm=paradigm, training=ONE_EPOCH)
    result = given.run(report=False)
    assert paradigm.scorer is None  # a copy of it scores
    assert result.scores["score_valid"].notna().all()
    assert list(given.paradigm.scoring) == list(paper_scorer())
    other = with_paper_scores(P300(scorer={"roc_auc": "roc_auc", "valid": valid_score}))
    assert next(iter(other.scoring)) == "balanced_accuracy"


def test_a_paradigm_by_name(tmp_path):
    assert isinstance(experiment(tmp_path, paradigm="P300").paradigm, P300)
    with pytest.raises(ValueError, match=r"paradigm='P30' is unknown.*Did you mean 'P300'"):
        experiment(tmp_path, paradigm="P30")


def test_a_paradigm_that_scores_as_it_likes(tmp_path):
    class Stubborn(P300):
        scoring = "roc_auc"

    with pytest.raises(ValueError, match="paradigm=Stubborn: its scoring does not follow its scorer"):
        experiment(tmp_path, paradigm=Stubborn())


def test_the_plan_of_a_folder_says_what_is_left(reference, tmp_path):
    out = copy_of(reference.out, tmp_path / "out")
    for key in read_index(out)["key"][-3:]:
        (out / "trainings" / f"{key}.json").unlink()
    plan = experiment(out).plan()
    assert plan["left"] == 3 and plan["text"].startswith("Left: 3 of 14 trainings")
    assert "Grid" not in plan["text"]
    assert experiment(reference.out).plan()["text"].startswith("Nothing is left to train")


def test_another_experiment_in_the_folder_is_refused(reference):
    before = {path: path.read_bytes() for path in reference.out.glob("*.*")}
    for change in (
        {"seed": 1},
        {"paradigm": ERP(resample=32)},
        {"training": {"max_epochs": 3}},
        {"grid": GRID[:1]},
        {"engine": "fleet"},
    ):
        with pytest.raises(ValueError, match=r"holds another experiment.*Nothing was changed"):
            run(reference.out, **change)
    assert {path: path.read_bytes() for path in reference.out.glob("*.*")} == before


def test_a_folder_in_which_nothing_was_trained_is_free(tmp_path):
    open_folder = experiment(tmp_path, GRID[:1], training={**ONE_EPOCH, "lr": 0.5})
    from braindecode_censor.paper.identity import open_experiment

    open_experiment(tmp_path, open_folder.identity())
    run(tmp_path, GRID[:1], training=ONE_EPOCH)
    shutil.rmtree(tmp_path / "trainings")
    with pytest.raises(ValueError, match="holds another experiment"):  # its tables are still there
        run(tmp_path, GRID[1:], training=ONE_EPOCH)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="device='cuda': torch finds no GPU"):
        experiment(tmp_path, training={"device": "cuda"})
    experiment(tmp_path, training={"device": "cuda"}, backend="dask", scheduler="tcp://127.0.0.1:1")


def test_a_folder_of_other_versions_is_refused(tmp_path, reference, monkeypatch):
    out = copy_of(reference.out, tmp_path / "out")
    monkeypatch.setattr("braindecode_censor.storage.keys.__version__", "99")
    with pytest.raises(ValueError, match=r"differs in versions: there .*now .*99"):
        run(out)


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match=r"has 1 subjects with trials.*at least 4"):
        run(tmp_path, dataset_options={**DATA, "n_subjects": 1})
    with pytest.raises(ValueError, match=r"seeds=0 must be an integer of at least 1"):
        experiment(tmp_path, seeds=0)
    with pytest.raises(ValueError, match=r"backend='dsk' is unknown.*'dask'"):
        experiment(tmp_path, backend="dsk")
    with pytest.raises(ValueError, match=r"needs scheduler="):
        experiment(tmp_path, backend="dask")
    with pytest.raises(ValueError, match=r"others='rieman' is unknown.*Did you mean 'riemann'"):
        experiment(tmp_path, others=["rieman"])
    with pytest.raises(ValueError, match="must hold plain numbers"):
        run(tmp_path, training={"max_epochs": 1, "callbacks": [object()]})
    with pytest.raises(ValueError, match="holds no experiment"):
        read_result(tmp_path / "nothing")
    assert not np.any([path.suffix == ".csv" for path in tmp_path.rglob("*")])
