"""Do processes and a Dask cluster give the very tables of one process?"""

import os
import signal
import threading
import time

import pytest
from autotransfer.tiny import experiment, finished

NAMES = ("scores.csv", "table.csv", "search.csv", "chosen.json")


def assert_same(out, reference):
    for name in NAMES:
        assert (out / name).read_bytes() == (reference.out / name).read_bytes()
    assert len(finished(out)) == len(set(finished(out))) == len(finished(reference.out))


@pytest.mark.slow
def test_two_processes(tmp_path, reference):
    experiment(tmp_path, jobs=2).run()
    assert_same(tmp_path, reference)


@pytest.mark.slow
def test_a_dask_cluster_also_when_a_worker_is_killed(tmp_path, reference):
    distributed = pytest.importorskip("dask.distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        options = {"backend": "dask", "scheduler": cluster.scheduler_address}
        experiment(tmp_path / "undisturbed", **options).run()
        assert_same(tmp_path / "undisturbed", reference)
        victim = next(iter(cluster.workers.values())).process.process.pid

        def kill():
            while len(finished(tmp_path / "disturbed")) < 2:
                time.sleep(0.01)
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        experiment(tmp_path / "disturbed", **options).run()
        killer.join()
        assert_same(tmp_path / "disturbed", reference)


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer(tmp_path):
    pytest.importorskip("dask.distributed")
    with pytest.raises(ValueError, match=r"scheduler='tcp://127.0.0.1:9' does not answer"):
        experiment(tmp_path, backend="dask", scheduler="tcp://127.0.0.1:9").run()
