"""Do processes and a Dask cluster give the very tables of one process?"""

import contextlib
import os
import signal
import threading
import time

import pytest
from tiny import finished, run

NAMES = ("scores.csv", "table.csv", "search.csv", "chosen.json")


def assert_same(out, reference):
    for name in NAMES:
        assert (out / name).read_bytes() == (reference.out / name).read_bytes()
    assert len(finished(out)) == len(set(finished(out))) == len(finished(reference.out))


@pytest.mark.slow
def test_two_processes(tmp_path, reference):
    run(tmp_path, jobs=2)
    assert_same(tmp_path, reference)


@pytest.mark.slow
def test_a_dask_cluster_also_when_workers_are_killed(tmp_path, reference):
    distributed = pytest.importorskip("dask.distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        options = {"backend": "dask", "scheduler": cluster.scheduler_address}
        run(tmp_path / "undisturbed", **options)
        assert_same(tmp_path / "undisturbed", reference)

        def kill():
            # First one of them; later all, and with them every copy of the data that were sent.
            for n_finished, n_victims in ((2, 1), (4, 2)):
                while len(finished(tmp_path / "disturbed")) < n_finished:
                    time.sleep(0.01)
                for worker in list(cluster.workers.values())[:n_victims]:
                    with contextlib.suppress(
                        AttributeError, ProcessLookupError
                    ):  # the nanny is just replacing it
                        os.kill(worker.process.process.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        run(tmp_path / "disturbed", **options)
        killer.join()
        assert_same(tmp_path / "disturbed", reference)


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer(tmp_path):
    pytest.importorskip("dask.distributed")
    with pytest.raises(ValueError, match=r"scheduler='tcp://127.0.0.1:9' does not answer"):
        run(tmp_path, backend="dask", scheduler="tcp://127.0.0.1:9")
