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
from pyriemann.estimation import XdawnCovariances
from pyriemann.tangentspace import TangentSpace
from safetensors.torch import load_file
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from tiny import DATA, FULL_GRID, GRID, Spoilt, experiment, finished

from braindecode_censor.autotransfer.evaluation import SUFFIX
from braindecode_censor.autotransfer.result import read_result
from braindecode_censor.datasets import ERP, SimulatedSubjects, paper_scorer, valid_score, with_paper_scores
from braindecode_censor.search.index import read_index
from braindecode_censor.storage.trainings import Memory, Training


def test_the_result_is_complete(reference):
    table, scores = reference.table, reference.scores
    assert reference.selected in set(scores["setting"]) - {"baseline"}
    assert list(table.index) == [
        "baseline",
        "adv",
        "mmd",
        *(f"AutoTransfer ({rule})" for rule in ("paper", "paper+baseline", "mean", "oracle")),
    ]
    assert len(scores) == 3 * 4 and scores.drop(columns="mode").notna().all(axis=None)
    assert dict(zip(scores["subject"], scores["valid_subject"])) == {1: 2, 2: 3, 3: 4, 4: 1}
    for name in ("report.html", "figures/results.pdf", "scores.csv", "table.csv", "search.csv"):
        assert (reference.out / name).stat().st_size > 0
    assert "selected" in reference.as_json() and json.dumps(reference.as_json())


def test_no_training_is_done_twice_and_moabb_does_none_itself(reference):
    """4 settings in the search; 3 settings of 4 folds in the cross-validation, two of them done before."""
    keys = finished(reference.out)
    assert len(keys) == len(set(keys)) == 4 + 3 * 4 - 2
    before = (reference.out / "scores.csv").read_bytes()
    again = experiment(reference.out).run()
    assert finished(reference.out) == keys
    assert (reference.out / "scores.csv").read_bytes() == before
    pd.testing.assert_frame_equal(again.table, reference.table)


def test_the_provenance_is_written(reference):
    content = json.loads((reference.out / "experiment.json").read_text())
    assert content["provenance"].keys() == {"started", "commit", "machine", "python"}
    assert content["identity"]["seeds"] == [0] and "torch" in content["identity"]["versions"]
    assert len(content["identity"]["grid"]) == 4


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


def test_somebody_elses_pipeline_runs_beside_ours(tmp_path):
    """XDAWN covariances and LDA, as MOABB ships them for P300."""
    xdawn = make_pipeline(
        XdawnCovariances(nfilter=1, estimator="oas"),
        TangentSpace(),
        LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    )
    result = experiment(tmp_path / "out", GRID[:1], others={"xDAWN+LDA": xdawn}).run()
    assert 0.5 < result.table.loc["xDAWN+LDA", "mean"] < 1
    assert result.scores.query("setting == 'xDAWN+LDA'")["subject"].tolist() == [1, 2, 3, 4]
    assert not any("xDAWN" in str(choice) for choice in result.chosen.values())


def test_all_five_methods_and_several_seeds(tmp_path):
    result = experiment(tmp_path / "out", FULL_GRID, seeds=2, seed=5).run()
    assert {"adv", "mige", "mmd", "pairmmd", "began"} < set(result.table.index)
    assert sorted(result.scores["seed"].unique()) == [5, 6]
    assert (result.table["seeds"] == 2).all()
    assert result.table["distinguishable"].isin([True, False]).all()
    one, two = (result.scores.query("seed == @seed")["score"].to_numpy() for seed in (5, 6))
    assert (one != two).any()


def test_the_nested_rule_never_sees_the_test_subject(tmp_path):
    """Subject 3 gets other signals and labels: its fold keeps its choice and every validation score."""
    clean, spoilt = (
        experiment(tmp_path / kind.__name__, dataset=kind(**DATA), dataset_options=None, nested=True).run()
        for kind in (SimulatedSubjects, Spoilt)
    )
    assert clean.chosen["nested"][3] == spoilt.chosen["nested"][3]
    inner = [pd.read_csv(result.out / "nested.csv").query("subject == 3") for result in (clean, spoilt)]
    pd.testing.assert_frame_equal(*inner)
    # the very same trainings: every weight of the folds without subject 3, search included, is shared
    keys = [set(finished(result.out)) for result in (clean, spoilt)]
    n_inner, n_search = 2 * 3, 4
    shared = keys[0] & keys[1]
    assert len(shared) >= n_inner + n_search - 2
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


def test_the_nested_rule_survives_a_training_that_diverged(tmp_path):
    options = {"nested": True, "top": 2, "training": {"max_epochs": 1, "batch_size": 16}}
    result = experiment(tmp_path, GRID[:1], **options).run()
    name = result.chosen["nested"][1]
    index = read_index(tmp_path).set_index(["setting", "subject"])
    diverged = Training(b"", {"error": "The validation loss was never finite", "seconds": 0.0})
    Memory(tmp_path / "trainings").write(index.loc[(name, 4), "key"], diverged)
    again = experiment(tmp_path, GRID[:1], **options).run()
    assert name not in set(again.chosen["nested"]) | set(again.scores["setting"])
    assert np.isfinite(again.table.loc["AutoTransfer (nested)", "gain"])


def test_a_paradigm_of_moabb(tmp_path):
    paradigm = P300(resample=64, fmin=1, fmax=20)
    given = experiment(tmp_path, GRID[:1], paradigm=paradigm, training={"max_epochs": 1, "batch_size": 16})
    result = given.run()
    assert paradigm.scorer is None  # a copy of it scores
    assert result.scores["score_valid"].notna().all()
    assert list(given.paradigm.scoring) == list(paper_scorer())
    other = with_paper_scores(P300(scorer={"roc_auc": "roc_auc", "valid": valid_score}))
    assert next(iter(other.scoring)) == "balanced_accuracy"


def test_a_paradigm_that_scores_as_it_likes(tmp_path):
    class Stubborn(P300):
        scoring = "roc_auc"

    with pytest.raises(ValueError, match="paradigm=Stubborn: its scoring does not follow its scorer"):
        experiment(tmp_path, paradigm=Stubborn())


def test_the_plan_counts_what_is_really_trained(tmp_path):
    nested = experiment(tmp_path / "out", GRID[:1], nested=True, training={"max_epochs": 1, "batch_size": 16})
    plan = nested.plan()
    nested.run()
    assert len(finished(tmp_path / "out")) <= plan["trainings"]["total"]
    assert plan["trainings"] == {"search": 2, "cross_validation": 7, "nested": 6 + 8, "total": 23}
    assert "23" in plan["text"] and plan["seconds_at_most"] > 0


def test_another_experiment_in_the_folder_is_refused(reference):
    before = {path: path.read_bytes() for path in reference.out.glob("*.*")}
    for change in (
        {"seed": 1},
        {"seeds": 2},
        {"paradigm": ERP(resample=32)},
        {"training": {"max_epochs": 3}},
        {"grid": GRID[:1]},
    ):
        with pytest.raises(ValueError, match=r"holds another experiment.*Nothing was changed"):
            experiment(reference.out, **change).run()
    assert {path: path.read_bytes() for path in reference.out.glob("*.*")} == before


def test_a_folder_in_which_nothing_was_trained_is_free(tmp_path):
    wrong = {"max_epochs": 1, "batch_size": 16, "module__filters": 3}
    with pytest.raises(TypeError, match="filters"):
        experiment(tmp_path, GRID[:1], training=wrong).run()
    assert (tmp_path / "experiment.json").exists()
    experiment(tmp_path, GRID[:1], training={"max_epochs": 1, "batch_size": 16}).run()
    shutil.rmtree(tmp_path / "trainings")
    with pytest.raises(ValueError, match="holds another experiment"):  # its tables are still there
        experiment(tmp_path, GRID[1:], training={"max_epochs": 1, "batch_size": 16}).run()


@pytest.mark.parametrize("name", ["random_state", "valid_subject", "penalty"])
def test_arguments_that_are_not_for_all_trainings(tmp_path, name):
    with pytest.raises(ValueError, match=f"training has '{name}', which .* decides: leave it out"):
        experiment(tmp_path, training={name: 1})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="device='cuda': torch finds no GPU"):
        experiment(tmp_path, training={"device": "cuda"})
    experiment(tmp_path, training={"device": "cuda"}, backend="dask", scheduler="tcp://127.0.0.1:1")


def test_a_store_of_another_version_is_refused(tmp_path, reference):
    (tmp_path / "trainings").mkdir()
    (tmp_path / "trainings" / "log.jsonl").write_text("")
    content = json.loads((reference.out / "experiment.json").read_text())
    content["identity"]["versions"]["torch"] = "1.0"
    (tmp_path / "experiment.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"differs in versions: there .*1\.0"):
        experiment(tmp_path).run()
    (tmp_path / "experiment.json").write_text("{")
    with pytest.raises(ValueError, match="cannot be read"):
        experiment(tmp_path).run()


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match=r"dataset='simulatd' is unknown.*Did you mean 'simulated'"):
        experiment(tmp_path, dataset="simulatd")
    with pytest.raises(ValueError, match=r"has 1 subjects with trials.*at least 4"):
        experiment(tmp_path, dataset_options={**DATA, "n_subjects": 1}).run()
    with pytest.raises(ValueError, match=r"seeds=0 must be an integer of at least 1"):
        experiment(tmp_path, seeds=0)
    with pytest.raises(ValueError, match=r"backend='dsk' is unknown.*'dask'"):
        experiment(tmp_path, backend="dsk")
    with pytest.raises(ValueError, match=r"needs scheduler="):
        experiment(tmp_path, backend="dask")
    with pytest.raises(ValueError, match="must hold plain numbers"):
        experiment(tmp_path, training={"max_epochs": 1, "callbacks": [object()]}).run()
    with pytest.raises(ValueError, match="holds no experiment"):
        read_result(tmp_path / "nothing")
    assert not np.any([path.suffix == ".csv" for path in tmp_path.rglob("*")])
