"""The runner: equal results in this process, in processes, on a cluster and on a GPU; deadlines and lost workers."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest
import torch
from processes import dask_cluster, file_size_limit, forking_joblib
from sklearn.dummy import DummyClassifier
from subjects import mixed_subjects

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.classical.estimator import TangentSpaceClassifier
from braindecode_censor.numerics.scores import SCORES, Stein
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.penalties.measures.mmd import MMD
from braindecode_censor.run import runner
from braindecode_censor.run.runner import count_workers, is_for_fleet, run
from braindecode_censor.run.training import Training, TrialData
from braindecode_censor.run.workers import end_with, own_parts
from braindecode_censor.storage.store import Store

OPTIONS = {"module": "EEGNet", "module__F1": 2, "module__D": 1, "max_steps": 3, "penalty": None}
SUBJECTS = (1, 2, 3, 4)


def network(**options):
    return CensoredEEGClassifier(**{**OPTIONS, **options})


def trainings(estimator=None, n=6, **options):
    """Trainings of a network, each without another subject."""
    for k in range(n):
        test = SUBJECTS[k % 4]
        train = tuple(subject for subject in SUBJECTS if subject != test)
        made = network(random_state=k, **options) if estimator is None else estimator
        yield Training(f"net{k}", made, train, (test,), "unlabeled")


@pytest.fixture(scope="module")
def data():
    return TrialData(*mixed_subjects(4, 8))


@pytest.fixture(scope="module")
def reference(data):
    return by_name(run([*trainings(), *trainings(TangentSpaceClassifier("power"), 1)], data))


def by_name(results):
    return {(r.training.name, type(r.training.estimator).__name__): r for r in results}


def assert_equal(results, reference):
    assert set(results) == set(reference)
    for name, result in results.items():
        expected = reference[name]
        assert result.error is None and result.model == expected.model
        for subject, P in expected.probabilities.items():
            np.testing.assert_array_equal(result.probabilities[subject], P)


def test_results_are_one_per_training_with_the_training_itself(data):
    wanted = list(trainings(n=3))
    results = list(run(wanted, data))
    assert [result.training for result in results] == wanted
    assert all(list(r.probabilities) == [r.training.test[0]] and r.seconds > 0 for r in results)


@pytest.mark.filterwarnings("ignore:`fork` start method")
def test_processes_give_equal_results(data, reference):
    with forking_joblib():
        results = by_name(run([*trainings(), *trainings(TangentSpaceClassifier("power"), 1)], data, n_jobs=2))
    assert_equal(results, reference)


@pytest.mark.filterwarnings("ignore:`fork` start method")
def test_trainings_are_taken_when_a_worker_is_free(data):
    """All but the running trainings are finished when the next one is taken."""
    finished, most = [], 0

    def late():
        nonlocal most
        for k, training in enumerate(trainings(TangentSpaceClassifier("power"), 12)):
            most = max(most, k - len(finished))
            yield training

    with forking_joblib():
        for result in run(late(), data, n_jobs=2):
            finished.append(result)  # noqa: PERF402, late() looks at it
    assert len(finished) == 12 and most <= 4


def test_stored_trainings_are_not_trained_again(data, reference, tmp_path, monkeypatch):
    store = Store(tmp_path / "store")
    own = Training("own", DummyClassifier(), (1, 2), (3,))
    wanted = [*trainings(), *trainings(TangentSpaceClassifier("power"), 1)]
    assert_equal(by_name(run(wanted, data, store)), reference)
    broken = Training("broken", network(module__nonsense=1), (1, 2), (3,))
    diverged = Training("diverged", network(lr=1e30, max_steps=5, normalize="none"), (1, 2), (3,))
    assert [r.error is None for r in run([own, broken, diverged], data, store)] == [True, False, False]
    assert len(list(store.folder.glob("*.training"))) == 8  # neither the own one nor the error of the code

    def train(training, *args):
        trained.append(training.name)
        return fit_training(training, *args)

    trained, fit_training = [], runner.fit_training
    monkeypatch.setattr(runner, "fit_training", train)
    again = list(run([*wanted, own, broken, diverged], data, store))
    assert sorted(trained) == ["broken", "own"] and len(again) == 10
    assert_equal(by_name(r for r in again if r.training in wanted), reference)
    assert [r.diverged for r in again if r.training is diverged] == [True]


def test_networks_are_given_up_at_the_deadline_and_classical_ones_are_not(data):
    began = time.time()
    wanted = [*trainings(n=2, max_steps=10**6), *trainings(TangentSpaceClassifier("power"), 2)]
    results = list(run(wanted, data, until=began + 1))
    assert time.time() - began < 20
    assert [r.out_of_time for r in results] == [True, True, False, False]
    assert results[0].error == "OutOfTimeError: the time limit was reached"
    assert results[0].seconds > 0.5 > results[1].seconds and not results[0].model


def test_out_of_time_is_not_stored(data, tmp_path):
    (result,) = run(trainings(n=1, max_steps=10**6), data, Store(tmp_path / "store"), until=time.time())
    assert result.out_of_time and not (tmp_path / "store").exists()


def test_count_workers():
    class Client:
        def nthreads(self):
            return {"a": 2, "b": 3}

    assert count_workers(3) == 3 and count_workers(-1) >= 1 and count_workers(1, Client()) == 5


class Sharp(MMD):
    """A measure of a user."""


class OwnScore(Stein):
    """A score estimator of a user."""


@pytest.mark.filterwarnings("ignore:`fork` start method")
@pytest.mark.parametrize(
    ("registry", "own", "options"),
    [(MEASURES, Sharp, {"penalty": "own"}), (SCORES, OwnScore, {"penalty": "mige", "penalty__score": "own"})],
    ids=["measure", "score"],
)
def test_workers_know_the_users_measures_and_scores(registry, own, options, data, monkeypatch):
    monkeypatch.setitem(registry, "own", own)
    wanted, parts = list(trainings(n=2, weight=0.1, **options)), own_parts()
    with forking_joblib():
        assert [result.error for result in run(wanted, data, n_jobs=2)] == [None, None]
    del registry["own"]  # as in a new process
    _, result = runner._fit_in_worker(0, wanted[0], data, None, ({}, {}))
    assert "='own' is unknown" in result.error
    number, result = runner._fit_in_worker(7, wanted[0], data, None, parts)
    assert number == 7 and result.error is None and result.training is None


@pytest.mark.filterwarnings("ignore:`fork` start method")
def test_full_disk_for_the_trials_of_workers_is_named(data, monkeypatch, tmp_path):
    """joblib writes arrays above a megabyte to a file, for all workers."""
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    large = TrialData(
        np.repeat(data.X, 1 + 2**20 // data.X[0].nbytes // len(data.X), 2), data.y, data.subjects
    )
    wanted = pytest.raises(ValueError, match=r"n_jobs=2: .*File too large.*JOBLIB_TEMP_FOLDER")
    with forking_joblib(), file_size_limit(10**5), wanted:
        list(run(trainings(n=2), large, n_jobs=2))


# A Dask cluster


def test_cluster_gives_equal_results_although_its_workers_are_killed(data, reference, tmp_path):
    distributed = pytest.importorskip("dask.distributed")
    store, killed = Store(tmp_path / "store"), []
    waiting = pytest.warns(UserWarning, match="cluster has no workers")
    with waiting, dask_cluster(0) as cluster, distributed.Client(cluster) as client:
        threading.Timer(1, cluster.scale, (1,)).start()

        def kill_all():
            """Kill every worker, and with them all copies of the data."""
            for worker in list(cluster.workers.values()):
                with contextlib.suppress(AttributeError, ProcessLookupError):
                    os.kill(worker.process.process.pid, signal.SIGKILL)
                    killed.append(worker)

        results = []
        for result in run(
            [*trainings(), *trainings(TangentSpaceClassifier("power"), 1)], data, store, client=client
        ):
            results.append(result)
            if len(results) == 2:
                kill_all()
    assert len(killed) == 1, "it was over before anything was killed"
    assert len(results) == len(reference)
    assert_equal(by_name(results), reference)
    assert len(list(store.folder.glob("*.training"))) == len(reference)


def test_cluster_that_loses_its_workers_again_and_again_is_given_up(data, monkeypatch):
    distributed = pytest.importorskip("dask.distributed")

    def lose(self, function, numbered):
        calls.append([number for number, _ in numbered])
        raise distributed.KilledWorker("task", None, None)
        yield

    calls = []
    monkeypatch.setattr(runner._Runner, "_on_cluster", lose)

    class Client:
        def nthreads(self):
            return {"a": 1}

    with pytest.raises(ConnectionError, match="lost its workers 3 times in a row"):
        list(run(trainings(n=3), data, client=Client()))
    assert calls == [[0, 1, 2]] * 3  # What was lost is tried again, under the same numbers.


# The end of the calling process


def _run_in_pool(folder, data):
    with forking_joblib():
        list(run(trainings(n=40, max_steps=20), data, Store(folder), n_jobs=2))


def test_workers_end_with_their_killed_parent(data, tmp_path):
    process = multiprocessing.get_context("fork").Process(target=_run_in_pool, args=(tmp_path / "s", data))
    process.start()
    limit = time.monotonic() + 60
    while len(list((tmp_path / "s").glob("*.training"))) < 2:
        assert process.is_alive() and time.monotonic() < limit, "nothing is trained"
        time.sleep(0.02)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.kill()
    process.join()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive, "workers go on after their parent"
    stored = {path.stem for path in (tmp_path / "s").glob("*.training")}
    assert all(Store(tmp_path / "s").read(key) for key in stored) and len(stored) < 40


def test_end_with_does_not_end_a_process_that_works_for_itself(monkeypatch):
    monkeypatch.setattr(os, "_exit", lambda status: pytest.fail("the process would have ended"))
    end_with(os.getpid())
    assert not any(thread.name == "end_with" for thread in threading.enumerate())


def test_end_with_ends_a_process_whose_parent_is_gone(monkeypatch):
    ended = []
    monkeypatch.setattr(os, "_exit", lambda status: ended.append(status) or (_ for _ in ()).throw(SystemExit))
    with pytest.raises(SystemExit):
        end_with(2**22 + 1)  # no such process
    assert ended == [1]


# Fleets


def fake_fleet(tasks, X, y, subjects, folder=None):
    """Trains as the fleet does, one after the other on the CPU."""
    for key, estimator, rows in tasks:
        estimator.set_params(device="cpu").fit(X[rows], y[rows], subjects=subjects[rows])
        yield type("Replica", (), {"key": key, "clf": estimator, "error": None})


@pytest.fixture
def as_on_gpu(monkeypatch):
    """Let the runner plan as for a GPU, and record which trainings it gives to the fleet."""
    fleets = []

    def train_fleet(tasks, *args, **options):
        fleets.append(len(tasks))
        if any("nonsense" in str(estimator.get_params()) for _, estimator, _ in tasks):
            raise RuntimeError("no such layer")
        return fake_fleet(tasks, *args, **options)

    monkeypatch.setattr("braindecode_censor.fleet.train_fleet", train_fleet)
    monkeypatch.setattr("braindecode_censor.fleet.compat.sequential_reason", lambda *_: None)
    return fleets


def test_networks_on_a_gpu_are_a_fleet_and_all_else_is_not(data, reference, as_on_gpu, tmp_path):
    wanted = [*trainings(device="cuda"), *trainings(TangentSpaceClassifier("power"), 1)]
    results = by_name(run(wanted, data, Store(tmp_path / "store")))
    assert as_on_gpu == [6] and set(results) == set(reference)
    for name, result in results.items():
        for subject, P in reference[name].probabilities.items():
            np.testing.assert_allclose(result.probabilities[subject], P, atol=1e-6)
    again = list(run(wanted, data, Store(tmp_path / "store")))
    assert as_on_gpu == [6] and len(again) == 7
    list(run(trainings(n=2), data))
    assert as_on_gpu == [6], "a network on the CPU was trained as a fleet"


def test_one_failing_network_does_not_take_the_fleet_with_it(data, as_on_gpu):
    broken = [Training("broken", network(device="cuda", module__nonsense=1), (1, 2), (3,))]
    results = list(run([*trainings(n=3, device="cuda"), *broken], data))
    assert as_on_gpu == [4, 1, 1, 1, 1]  # together, then each candidate by itself
    assert {r.training.name: r.error for r in results} == {
        "net0": None,
        "net1": None,
        "net2": None,
        "broken": "RuntimeError: no such layer",
    }


def test_fleet_is_for_networks_on_cuda_only(data):
    assert not is_for_fleet(network(), data) and not is_for_fleet(TangentSpaceClassifier(), data)
    assert is_for_fleet(network(device="cuda"), data) in (True, False)
    assert not is_for_fleet(network(device="cuda", module__nonsense=1), data)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_gives_the_results_of_the_cpu(data, reference):
    results = by_name(run(trainings(device="cuda"), data))
    for name, result in results.items():
        for subject, P in reference[name].probabilities.items():
            np.testing.assert_allclose(result.probabilities[subject], P, atol=1e-4)
