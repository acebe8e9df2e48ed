"""The whole method through MOABB: complete, repeatable, growing, and refusing what makes no sense."""

import json
import shutil
import socket

import moabb.analysis
import numpy as np
import pandas as pd
import pytest
import torch
from moabb.analysis.results import Results
from moabb.evaluations import CrossSubjectEvaluation
from moabb.paradigms import P300
from sklearn.dummy import DummyClassifier
from sklearn.metrics import balanced_accuracy_score
from tiny import DATA, GRID, ONE_EPOCH, copy_of, experiment, finished, run

from braindecode_censor.datasets import ERP, paper_scorer, valid_score, with_paper_scores
from braindecode_censor.paper.evaluation import SUFFIX
from braindecode_censor.paper.experiment import best_so_far
from braindecode_censor.paper.identity import open_experiment
from braindecode_censor.paper.result import read_result
from braindecode_censor.paper.stored import open_store, read_training
from braindecode_censor.paper.tables import read_index
from braindecode_censor.paper.trainings import make_training
from braindecode_censor.run.training import TrainingResult


def test_result_is_complete(reference):
    table, scores = reference.table, reference.scores
    assert reference.selected in set(scores["setting"]) - {"baseline"} and reference.chance == 0.5
    rules = ("paper", "paper+baseline", "mean", "oracle")
    assert list(table.index) == ["baseline", "adv", "mmd", *(f"AutoTransfer ({rule})" for rule in rules)]
    assert len(scores) == 3 * 4 and scores.drop(columns="mode").notna().all(axis=None)
    assert dict(zip(scores["subject"], scores["valid_subject"])) == {1: 2, 2: 3, 3: 4, 4: 1}
    for name in ("scores.csv", "table.csv", "search.csv"):
        assert (reference.out / name).stat().st_size > 0
    assert reference.report is None and not (reference.out / "report.html").exists()
    assert "selected" in reference.as_json() and json.dumps(reference.as_json())
    content = json.loads((reference.out / "experiment.json").read_text())
    assert content["provenance"].keys() == {"started", "machine", "python"}
    identity = content["identity"]
    assert identity["seeds"] == [0] and "torch" in identity["versions"]
    assert identity["classes"] == ["NonTarget", "Target"] and identity["training"]["keep"] == "best"


def test_finished_trainings_are_not_repeated(reference):
    """4 configurations in the search; 3 of 4 folds in the cross-validation, two of them trained before."""
    keys = finished(reference.out)
    assert len(keys) == len(set(keys)) == 4 + 3 * 4 - 2
    before = (reference.out / "scores.csv").read_bytes()
    plan = experiment(reference.out).plan()
    assert plan["remaining"] == 0 and plan["text"].startswith("Nothing remains to be trained")
    again = run(reference.out)
    assert finished(reference.out) == keys
    assert (reference.out / "scores.csv").read_bytes() == before
    pd.testing.assert_frame_equal(again.table, reference.table)


def test_plan_counts_trainings(reference, tmp_path):
    plan = experiment(tmp_path / "new").plan()
    assert plan["trainings"] == {"search": 4, "cross_validation": 10, "total": 14}
    assert plan["remaining"] == 14 and plan["seconds"] > 0 and not (tmp_path / "new").exists()
    out = copy_of(reference.out, tmp_path / "out")
    for key in read_index(out)["key"][-3:]:
        open_store(out).path(key).unlink()
    plan = experiment(out).plan()
    assert plan["remaining"] == 3 and plan["text"].startswith("Remaining: 3 of 14 trainings")
    assert "Grid" not in plan["text"]


def test_moabb_reads_and_analyses_the_results(reference, tmp_path):
    folder = str(reference.out / "moabb")
    results = Results(CrossSubjectEvaluation, ERP, SUFFIX, hdf5_path=folder).to_dataframe()
    assert len(results) == 12 and {"score", "score_valid"} <= set(results.columns)
    ours = reference.scores.groupby("setting")["score"].mean()
    assert sorted(results.groupby("pipeline")["score"].mean()) == pytest.approx(sorted(ours), abs=1e-6)
    moabb.analysis.analyze(results, str(tmp_path), plot=True)
    assert list(tmp_path.rglob("scores.pdf")) and list(tmp_path.rglob("stats.csv"))


def test_scores_equal_those_of_a_plain_estimator(reference):
    """The fold of the first subject again, trained here and not read."""
    study = experiment(reference.out)
    config = next(config for config in study.preset.grid if config.name == reference.selected)
    data, training = study.data, make_training(config, 0, 1, study.training, study.data)
    train, test = data.rows(training.train), data.rows([1])
    assert not set(train) & set(test) and len(train) + len(test) == len(data.y)
    clf = training.estimator.fit(data.X[train], data.y[train], subjects=data.subjects[train])
    score = balanced_accuracy_score(data.y[test], clf.predict(data.X[test]))
    row = reference.scores.query("setting == @reference.selected and subject == 1")
    assert row["score"].item() == pytest.approx(score)
    assert row["score_valid"].item() == pytest.approx(clf.valid_score_)
    stored = read_training(reference.out, training.key(data))
    np.testing.assert_array_equal(stored.probabilities[1], clf.predict_proba(data.X[test]))


def test_diverged_configuration_is_left_out(reference, tmp_path, capsys):
    out = copy_of(reference.out, tmp_path / "out")
    index = read_index(out).set_index(["setting", "subject"])
    result = TrainingResult(None, record={"seconds": 0.0}, error="DivergedError: the loss is not finite")
    key = index.loc[(reference.selected, 4), "key"]
    open_store(out).write(key, result.to_bytes())
    again = run(out)
    assert reference.selected not in set(again.scores["setting"]) | set(again.table["setting"])
    assert f"Left out, because a loss was not finite: {reference.selected}" in capsys.readouterr().err
    open_store(out).write(index.loc[("baseline", 4), "key"], result.to_bytes())
    with pytest.raises(ValueError, match="loss of the baseline was not finite"):
        run(out)


def test_paradigm_of_moabb_and_pipeline_of_a_user(tmp_path):
    paradigm, others = P300(resample=64, fmin=1, fmax=20), {"guess": DummyClassifier()}
    study = experiment(tmp_path, GRID[:1], paradigm=paradigm, others=others, training=ONE_EPOCH)
    result = study.run(report=False)
    assert paradigm.scorer is None  # A copy of it scores.
    assert list(study.paradigm.scoring) == list(paper_scorer())
    ours = result.scores.query("setting != 'guess'")
    assert ours["score_valid"].notna().all() and result.table.loc["guess", "mean"] == 0.5
    assert result.scores.query("setting == 'guess'")["subject"].tolist() == [1, 2, 3, 4]
    assert "guess" not in result.selected_by_rule.values()
    other = with_paper_scores(P300(scorer={"roc_auc": "roc_auc", "valid": valid_score}))
    assert next(iter(other.scoring)) == "balanced_accuracy"


def test_paradigm_by_name_or_with_fixed_scoring(tmp_path):
    class Stubborn(P300):
        scoring = "roc_auc"

    assert isinstance(experiment(tmp_path, paradigm="P300").paradigm, P300)
    with pytest.raises(ValueError, match="paradigm=Stubborn: its scoring does not follow its scorer"):
        experiment(tmp_path, paradigm=Stubborn())


def test_another_experiment_in_the_folder_is_refused(reference, monkeypatch):
    before = {path: path.read_bytes() for path in reference.out.glob("*.*")}
    changes = ({"random_state": 1}, {"paradigm": ERP(resample=32)}, {"training": {"max_epochs": 3}})
    for change in (*changes, {"grid": GRID[:1]}):
        with pytest.raises(ValueError, match=r"holds another experiment.*Nothing was changed"):
            run(reference.out, **change)
    monkeypatch.setattr("braindecode_censor.storage.keys.__version__", "99")
    with pytest.raises(ValueError, match=r"differs in versions: there .*now .*99"):
        run(reference.out)
    assert {path: path.read_bytes() for path in reference.out.glob("*.*")} == before


def test_folder_without_results_is_free(tmp_path):
    other = experiment(tmp_path, GRID[:1], training={**ONE_EPOCH, "lr": 0.5})
    open_experiment(tmp_path, other.identity())
    run(tmp_path, GRID[:1], training=ONE_EPOCH)
    shutil.rmtree(tmp_path / "trainings")
    with pytest.raises(ValueError, match="holds another experiment"):  # Its tables are still there.
        run(tmp_path, GRID[1:], training=ONE_EPOCH)


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has 1 subjects with trials.*at least 4"):
        run(tmp_path, dataset_options={**DATA, "n_subjects": 1})
    with pytest.raises(ValueError, match=r"n_seeds=0 must be an integer of at least 1"):
        experiment(tmp_path, n_seeds=0)
    with pytest.raises(ValueError, match=r"others='rieman' is unknown.*Did you mean 'riemann'"):
        experiment(tmp_path, others=["rieman"])
    with pytest.raises(ValueError, match="must hold plain numbers"):
        run(tmp_path, training={"max_epochs": 1, "callbacks": [object()]})
    with pytest.raises(ValueError, match="holds no experiment"):
        read_result(tmp_path / "nothing")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device='cuda': torch finds no GPU"):
            experiment(tmp_path, training={"device": "cuda"})
        experiment(tmp_path, training={"device": "cuda"}, scheduler="tcp://127.0.0.1:1")
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".csv"]


def test_scheduler_that_does_not_answer_is_named_without_its_password(tmp_path, monkeypatch):
    pytest.importorskip("dask.distributed")
    monkeypatch.setattr("braindecode_censor.paper.cluster._TIMEOUT", 0.5)
    message = r"scheduler='tcp://ann:\*\*\*@127.0.0.1:9' does not answer"
    with pytest.raises(ValueError, match=message) as refused:
        run(tmp_path, scheduler="tcp://ann:secret@127.0.0.1:9")
    assert "secret" not in str(refused.value)


def test_scheduler_that_accepts_and_says_nothing_is_an_error(tmp_path, monkeypatch):
    pytest.importorskip("dask.distributed")
    monkeypatch.setattr("braindecode_censor.paper.cluster._TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"scheduler='{address}' does not answer"):
            run(tmp_path, scheduler=address)


def test_best_so_far_is_a_mean_over_folds():
    assert best_so_far({}) == ""
    text = best_so_far({"lucky": [0.9, 0.1], "steady": [0.6, 0.6]})
    assert text == "best so far steady (0.600 over 2 folds)"
    assert "half" not in best_so_far({"half": [0.9], "whole": [0.5, 0.5]})
