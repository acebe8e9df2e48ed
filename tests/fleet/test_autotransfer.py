"""The same door: does AutoTransfer find the same with engine='fleet', in the same files? (Kills: tests/robustness.)"""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tiny import DATA, GRID, copy_of, experiment, finished, run, run_as_fleet
from training.test_moabb import SMALL, _dataset, _evaluate, _pipeline

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.paper.cross_subject import CrossSubjectEvaluation
from braindecode_censor.paper.plan import describe_plan, why_no_fleet
from braindecode_censor.storage.trainings import TrainingCache

# the helpers' scorers ask who validated
ROTATE = {"valid_subject": "rotate", "keep": "best", "normalize": "trial_channel"}


@pytest.fixture(scope="module")
def pair(reference, tmp_path_factory):
    """The whole method by either engine, same seeds, dropout as in the defaults; every penalty: test_equal_to_alone."""
    out = copy_of(run_as_fleet(), tmp_path_factory.mktemp("fleet") / "out")
    return reference, run(out, engine="fleet")


def test_selected_method_and_scores_agree(pair):
    sequential, fleet = pair
    assert fleet.selected == sequential.selected
    keys = ["method", "setting", "seed", "subject", "valid_subject"]
    pd.testing.assert_frame_equal(fleet.scores[keys], sequential.scores[keys])
    np.testing.assert_allclose(fleet.scores["score"], sequential.scores["score"], atol=1e-6)
    np.testing.assert_allclose(fleet.scores["score_valid"], sequential.scores["score_valid"], atol=1e-6)
    assert list(fleet.table.index) == list(sequential.table.index)


def test_the_store_is_the_same(pair):
    """Same keys, same kind of record, weights equal to rounding."""
    caches = [TrainingCache(result.out / "trainings") for result in pair]
    keys = [sorted(finished(result.out)) for result in pair]
    assert keys[0] == keys[1] and len(set(keys[0])) == len(keys[0])
    for key in keys[0]:
        alone, member = (cache.read(key) for cache in caches)
        assert member.pop("engine") == "fleet"
        assert alone.keys() == member.keys() and alone["history"].keys() == member["history"].keys()
        assert (alone["best_epoch"], alone["valid_score"]) == (member["best_epoch"], member["valid_score"])
        for name, values in alone["history"].items():
            np.testing.assert_allclose(member["history"][name], values, rtol=2e-3, atol=1e-4, err_msg=name)
        states = [cache.load(key).module_.state_dict() for cache in caches]
        for name, tensor in states[0].items():
            assert (states[1][name] - tensor).abs().max() < 1e-4, name
    assert not (caches[1].folder / "fleet").exists() or not list((caches[1].folder / "fleet").iterdir())


def test_a_folder_belongs_to_one_engine(pair):
    with pytest.raises(ValueError, match=r"holds another experiment, which differs in engine"):
        run(pair[0].out, engine="fleet")


def test_wrong_engines_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"engine='parallel'.*sequential"):
        experiment(tmp_path, engine="parallel")


def test_moabbs_evaluation_by_a_fleet_writes_the_rows_of_moabbs_own(tmp_path):
    pipelines = {
        "mmd": _pipeline(**ROTATE, penalty="mmd", weight=0.1),
        # a class, which the file of a finished training cannot hold
        "relu": _pipeline(**ROTATE, penalty=None, module__activation=torch.nn.ReLU),
        "scaled": make_pipeline(
            FunctionTransformer(), CensoredEEGClassifier(**{**SMALL, **ROTATE}, random_state=1)
        ),
    }
    own = _evaluate(_dataset(), pipelines, tmp_path / "own")
    together = _evaluate(
        _dataset(),
        pipelines,
        tmp_path / "fleet",
        lambda **options: CrossSubjectEvaluation(cache=tmp_path / "cache", **options),
    )
    assert len(list((tmp_path / "cache").glob("*.json"))) == 8
    names = [str(path.relative_to(tmp_path / "own")) for path in (tmp_path / "own").rglob("*.hdf5")]
    assert names == [
        str(path.relative_to(tmp_path / "fleet")) for path in (tmp_path / "fleet").rglob("*.hdf5")
    ]
    keys = ["pipeline", "subject", "session", "samples", "channels", "dataset"]
    own, together = (rows.sort_values(["pipeline", "subject"], ignore_index=True) for rows in (own, together))
    pd.testing.assert_frame_equal(own[keys], together[keys])
    columns = [name for name in own.columns if name.startswith("score")]
    # "score_weights" is a fingerprint of all weights, "score_certainty" of all probabilities
    np.testing.assert_allclose(together[columns].astype(float), own[columns].astype(float), atol=1e-4)
    # The file of either is the other's: MOABB finds all rows and computes nothing.
    count = len(list((tmp_path / "cache").iterdir()))
    again = _evaluate(_dataset(), pipelines, tmp_path / "fleet")
    assert len(again) == len(together) and len(list((tmp_path / "cache").iterdir())) == count


def test_folds_that_cut_through_subjects_are_trainings_of_their_own(tmp_path):
    """Folds of sessions have the same subjects in the same order, but other trials."""
    dataset = _dataset(n_sessions=2)
    pipelines = {"erm": _pipeline(**ROTATE, penalty=None)}
    own = _evaluate(dataset, pipelines, tmp_path / "own", groups="session")
    together = _evaluate(
        dataset,
        pipelines,
        tmp_path / "fleet",
        lambda **options: CrossSubjectEvaluation(cache=tmp_path / "cache", **options),
        groups="session",
    )
    assert len(list((tmp_path / "cache").glob("*.json"))) == 2
    columns = [name for name in own.columns if name.startswith("score")]
    order = ["subject", "session"]
    own, together = (rows.sort_values(order)[columns].astype(float) for rows in (own, together))
    np.testing.assert_allclose(together, own, atol=1e-4)
    assert own["score_weights"].nunique() == 2


def test_the_plan_says_what_is_trained_one_by_one(tmp_path):
    options = {
        "training": {"module": "SSTDPN", "max_epochs": 1},
        "dataset_options": {**DATA, "duration": 8.0},
    }
    lone = experiment(tmp_path, GRID[:1], engine="fleet", **options)
    reason = why_no_fleet(lone.preset.grid, lone.recording, lone.training)
    assert "accessing `data` under vmap" in reason
    text = describe_plan(lone.preset.grid, {"search": 3, "total": 3}, 3, {}, 1, 1, reason)["text"]
    assert f"trained one by one ({reason})" in text
    plan = experiment(tmp_path, GRID[:1], engine="fleet").plan()
    assert plan["alone"] is None
    assert "Fleet" not in plan["text"]
