"""Does a Dask cluster give the very tables of one process? (Processes of this machine: tests/robustness.)"""

import contextlib
import os
import signal
import threading
import time

import pytest
from processes import dask_cluster
from tiny import finished, run

NAMES = ("scores.csv", "table.csv", "search.csv", "chosen.json")


def test_a_dask_cluster_also_when_all_its_workers_are_killed(tmp_path, reference):
    pytest.importorskip("dask.distributed")
    with dask_cluster(1) as cluster:
        killed, stop = [], threading.Event()

        def kill():
            """Kill the only one, and with it every copy of the data that were sent."""
            while len(finished(tmp_path)) < 2 and not stop.wait(0.01):
                pass
            for worker in list(cluster.workers.values()):
                with contextlib.suppress(
                    AttributeError, ProcessLookupError
                ):  # the nanny is just replacing it
                    os.kill(worker.process.process.pid, signal.SIGKILL)
                    killed.append(time.monotonic())

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        try:
            run(tmp_path, backend="dask", scheduler=cluster.scheduler_address)
        finally:
            stop.set()
            killer.join(10)
    assert killed, "it was over before anything was killed"
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == (reference.out / name).read_bytes()
    assert len(finished(tmp_path)) == len(set(finished(tmp_path))) == len(finished(reference.out))


def test_a_scheduler_that_does_not_answer(tmp_path, monkeypatch):
    pytest.importorskip("dask.distributed")
    monkeypatch.setattr("braindecode_censor.run.backends.ANSWER", 0.5)
    with pytest.raises(ValueError, match=r"scheduler='tcp://127.0.0.1:9' does not answer"):
        run(tmp_path, backend="dask", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(
        ValueError, match=r"scheduler='tcp://ann:\*\*\*@127.0.0.1:9' does not answer"
    ) as refused:
        run(tmp_path, backend="dask", scheduler="tcp://ann:secret@127.0.0.1:9")
    assert "secret" not in str(refused.value)
