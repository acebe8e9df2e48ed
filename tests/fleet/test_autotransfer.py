"""The same door: does AutoTransfer find the same with engine='fleet', in the same files, and survive kills?"""

import contextlib
import json
import multiprocessing
import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tiny import FULL_GRID, experiment, finished
from training.test_moabb import SMALL, _dataset, _evaluate, _pipeline

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.fleet.evaluation import CrossSubjectEvaluation
from braindecode_censor.storage.trainings import Memory

FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The whole method by either engine: every method, same seeds, dropout as in the defaults."""
    out = tmp_path_factory.mktemp("engines")
    return [experiment(out / engine, FULL_GRID, engine=engine).run() for engine in ("sequential", "fleet")]


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
    memories = [Memory(result.out / "trainings") for result in pair]
    keys = [sorted(finished(result.out)) for result in pair]
    assert keys[0] == keys[1] and len(set(keys[0])) == len(keys[0])
    for key in keys[0]:
        alone, member = (memory.read(key) for memory in memories)
        assert member.pop("engine") == "fleet"
        assert alone.keys() == member.keys() and alone["history"].keys() == member["history"].keys()
        assert (alone["best_epoch"], alone["valid_score"]) == (member["best_epoch"], member["valid_score"])
        for name, values in alone["history"].items():
            np.testing.assert_allclose(member["history"][name], values, rtol=2e-3, atol=1e-4, err_msg=name)
        states = [memory.load(key).module_.state_dict() for memory in memories]
        for name, tensor in states[0].items():
            assert (states[1][name] - tensor).abs().max() < 1e-4, name
    assert not (memories[1].folder / "fleet").exists() or not list((memories[1].folder / "fleet").iterdir())


def test_two_processes_find_what_one_finds(pair, tmp_path):
    result = experiment(tmp_path / "out", FULL_GRID, engine="fleet", jobs=2).run()
    assert sorted(finished(result.out)) == sorted(finished(pair[1].out))
    assert result.selected == pair[1].selected
    np.testing.assert_allclose(result.scores["score"], pair[1].scores["score"], atol=1e-6)
    assert not list((result.out / "trainings" / "fleet").glob("*")), "nothing is left to resume"


def test_a_folder_belongs_to_one_engine(pair):
    with pytest.raises(ValueError, match=r"holds another experiment, which differs in engine"):
        experiment(pair[0].out, FULL_GRID, engine="fleet").run()


def test_wrong_engines_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"engine='parallel'.*sequential"):
        experiment(tmp_path, engine="parallel")
    with pytest.raises(ValueError, match=r"engine='fleet' trains on this machine"):
        experiment(tmp_path, engine="fleet", backend="dask", scheduler="tcp://127.0.0.1:9")


def _run(out):
    experiment(out, FULL_GRID, engine="fleet").run()


def test_a_killed_run_is_resumed(tmp_path, pair):
    out = tmp_path / "out"
    process = FORK.Process(target=_run, args=(out,))
    process.start()
    while len(finished(out)) < 3 and process.is_alive():
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode != 0
    before = finished(out)
    result = experiment(out, FULL_GRID, engine="fleet").run()
    assert finished(out)[: len(before)] == before
    assert len(finished(out)) == len(set(finished(out))) == len(finished(pair[1].out))
    assert result.selected == pair[1].selected
    np.testing.assert_allclose(result.scores["score"], pair[1].scores["score"], atol=1e-6)


def test_the_shell(tmp_path, capsys):
    from tiny import DATA

    from braindecode_censor.autotransfer.cli import main

    options = [f"--dataset-option={key}={value}" for key, value in DATA.items()]
    grid = tmp_path / "grid.yml"
    grid.write_text("- {method: mmd, weight: 0.1}\n- {method: adv, weight: 0.1}\n")
    arguments = [
        "run",
        "--engine",
        "fleet",
        "--preset",
        str(grid),
        "--epochs",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*arguments, *options, "--json", "--quiet"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "out" / "experiment.json").read_text())["identity"]["engine"] == "fleet"
    assert main(["resume", "--out", str(tmp_path / "out"), "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"] == first["scores"]


def test_moabbs_evaluation_by_a_fleet_writes_the_rows_of_moabbs_own(tmp_path):
    pipelines = {
        "mmd": _pipeline(penalty="mmd", weight=0.1),
        "erm": _pipeline(penalty=None),
        # a class, which the file of a finished training cannot hold
        "relu": _pipeline(penalty=None, module__activation=torch.nn.ReLU),
        "scaled": make_pipeline(FunctionTransformer(), CensoredEEGClassifier(**SMALL, random_state=1)),
    }
    own = _evaluate(_dataset(), pipelines, tmp_path / "own")
    together = _evaluate(
        _dataset(),
        pipelines,
        tmp_path / "fleet",
        lambda **options: CrossSubjectEvaluation(memory=tmp_path / "memory", **options),
    )
    assert len(list((tmp_path / "memory").glob("*.json"))) == 12
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
    memory = len(list((tmp_path / "memory").iterdir()))
    again = _evaluate(_dataset(), pipelines, tmp_path / "fleet")
    assert len(again) == len(together) and len(list((tmp_path / "memory").iterdir())) == memory


def test_folds_that_cut_through_subjects_are_trainings_of_their_own(tmp_path):
    """Folds of sessions have the same subjects in the same order, but other trials."""
    dataset = _dataset(n_sessions=2)
    pipelines = {"erm": _pipeline(penalty=None)}
    own = _evaluate(dataset, pipelines, tmp_path / "own", groups="session")
    together = _evaluate(
        dataset,
        pipelines,
        tmp_path / "fleet",
        lambda **options: CrossSubjectEvaluation(memory=tmp_path / "memory", **options),
        groups="session",
    )
    assert len(list((tmp_path / "memory").glob("*.json"))) == 2
    columns = [name for name in own.columns if name.startswith("score")]
    order = ["subject", "session"]
    own, together = (rows.sort_values(order)[columns].astype(float) for rows in (own, together))
    np.testing.assert_allclose(together, own, atol=1e-4)
    assert own["score_weights"].nunique() == 2
