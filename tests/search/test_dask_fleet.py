"""Does a fleet on a Dask cluster give the table of one process, also when workers are killed?"""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from processes import dask_cluster
from rhythms import simulate
from tiny import experiment, finished, run, run_as_fleet

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.fleet.trainings import train_all
from braindecode_censor.search.budget import Budget
from braindecode_censor.search.dask_fleet import make_shares, train_on_cluster
from braindecode_censor.search.family import find_candidates
from braindecode_censor.search.pair_data import PairData
from braindecode_censor.search.pair_runner import PairRunner
from braindecode_censor.search.pair_search import PairSearch
from braindecode_censor.search.pair_store import PairStore
from braindecode_censor.search.pairs import make_pairs
from braindecode_censor.storage.tables import read_table

distributed = pytest.importorskip("dask.distributed")

LONG = {"max_epochs": 10, "batch_size": 16, "module__F1": 2, "module__D": 1, "augment": None}


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes."""
    with dask_cluster(2) as cluster:
        yield cluster


def kill(cluster, count):
    """Kill worker processes; their nannies start new ones."""
    killed = 0
    for worker in list(cluster.workers.values())[:count]:
        with contextlib.suppress(AttributeError, ProcessLookupError):
            os.kill(worker.process.process.pid, signal.SIGKILL)
            killed += 1
    return killed


@pytest.fixture(scope="module")
def tasks():
    X, y, subjects = simulate(n_subjects=4, n_trials=16, n_times=64)

    def make(weights=(0.1,)):
        return [
            (f"{m}-{w}", CensoredEEGClassifier(weight=w, **LONG), np.flatnonzero(subjects != m))
            for w in weights
            for m in range(1, 5)
        ]

    return (X, y, subjects), make


def same(found, expected):
    assert found.keys() == expected.keys()
    for key, training in found.items():
        losses = [one.record["history"]["train_loss"] for one in (training, expected[key])]
        np.testing.assert_allclose(*losses, rtol=1e-5)
        np.testing.assert_allclose(
            training.heldout["probabilities"], expected[key].heldout["probabilities"], atol=1e-5
        )


def test_killed_workers_cost_what_was_not_saved(cluster, tasks, tmp_path):
    data, make = tasks
    expected = dict(train_all(make(), *data))
    saved = lambda: list(tmp_path.glob("*/*.checkpoint"))  # noqa: E731
    stop, killed = threading.Event(), []

    def kill_twice():
        """Kill one worker as soon as something is saved, and all of them a little later."""
        for count in (1, 2):
            before = {path: path.stat().st_mtime_ns for path in saved()}
            while not stop.wait(0.02):
                with contextlib.suppress(FileNotFoundError):
                    if any(before.get(path) != path.stat().st_mtime_ns for path in saved()):
                        break
            killed.append(kill(cluster, count))
            time.sleep(0.5)

    killer = threading.Thread(target=kill_twice, daemon=True)
    killer.start()
    found, repeated = {}, []
    with distributed.Client(cluster, set_as_default=False) as client:
        for key, done in train_on_cluster(client, make(), data, tmp_path, every=0.0):
            repeated += [key] if key in found else []
            found[key] = done
    stop.set()
    killer.join(10)
    assert killed == [1, 2], "it was over before anything was killed"
    assert not repeated
    same(found, expected)
    assert not list(tmp_path.iterdir()), "checkpoints of finished trainings are gone"


def test_the_experiment_finds_the_same_on_a_cluster(cluster, tmp_path):
    alone = run_as_fleet()
    together = run(tmp_path / "dask", engine="fleet", backend="dask", scheduler=cluster.scheduler_address)
    assert (tmp_path / "dask" / "chosen.json").read_bytes() == (alone / "chosen.json").read_bytes()
    numbers, expected = ["score", "score_valid"], read_table(alone, "scores.csv")
    pd.testing.assert_frame_equal(together.scores.drop(columns=numbers), expected.drop(columns=numbers))
    np.testing.assert_allclose(together.scores[numbers], expected[numbers], atol=1e-6)
    assert sorted(finished(tmp_path / "dask")) == sorted(finished(alone))
    again = experiment(tmp_path / "dask", engine="fleet", backend="dask", scheduler=cluster.scheduler_address)
    assert again.plan()["left"] == 0


def test_shares_are_as_many_as_workers_and_stay_together(tasks, tmp_path):
    every = tasks[1]((0.1, 1.0))
    shares = make_shares(every, 4, tmp_path)
    assert [len(share.left) for share in shares] == [2, 2, 2, 2]
    first = shares[0]
    (first.folder / "a.checkpoint").write_bytes(b"saved")
    gone, kept = list(first.left)
    left = [task for task in every if task[0] != gone and task[0] not in shares[1].left]
    again = make_shares(left, 1, tmp_path)
    assert sorted(map(sorted, (share.left for share in again))) == sorted(
        map(sorted, ([kept], shares[2].left, shares[3].left))
    )
    assert next(share for share in again if kept in share.left).checkpoints() == {"a.checkpoint": b"saved"}
    assert not Path(shares[1].folder).exists()


def test_an_error_of_a_training_is_not_taken_for_a_lost_worker(cluster, tasks, tmp_path):
    (X, y, subjects), make = tasks
    with (
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(ValueError, match="y has shape"),
    ):
        list(train_on_cluster(client, make(), (X, y[:-1], subjects), tmp_path))


def test_a_search_on_a_cluster_survives_the_loss_of_all_workers(cluster, tmp_path):
    X, y, subjects = simulate(n_subjects=4, n_trials=16, n_times=64)
    net = {"name": "net", "network": "EEGNet", "F1": 2, "D": 1, "max_steps": 4, "kernel": 0.1}
    pairs = make_pairs(4)
    data = PairData(X, y, subjects - 1, pairs)
    candidates, _ = find_candidates([net, "power"])
    expected = PairSearch(
        data, candidates, False, Budget(None), PairRunner(data, PairStore(None, data))
    ).run()
    killed = []

    def report(outcome, result):
        if len(result.models) == 2:
            killed.append(kill(cluster, 2))

    with distributed.Client(cluster, set_as_default=False) as client:
        runner = PairRunner(data, PairStore(tmp_path, data), client=client)
        found = PairSearch(data, candidates, False, Budget(None), runner, report).run()
        assert killed == [2]
        assert found.models == expected.models
        assert set(found.trainings.values()) == {len(pairs)}, "nothing finished is repeated"
        # as fleets, which a search uses on GPUs: the same up to rounding
        runner = PairRunner(data, PairStore(None, data), client=client)
        runner.has_fleet = True
        fleet = PairSearch(data, candidates[:1], False, Budget(None), runner).run()
    np.testing.assert_allclose(fleet.heldout.scores("net"), found.heldout.scores("net"), atol=1e-6)
