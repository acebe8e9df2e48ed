"""Killed, out of disk, read-only: finished trainings are kept, and the results are those of an undisturbed run.

``ATTACKS=20 python -m pytest tests/robustness`` kills more often than the short version that always runs, and lets
workers import everything again, as a user's do.
"""

import contextlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

import h5py
import psutil
import pytest
from processes import forking_joblib, seconds_to_end
from tiny import copy_of, finished, run

from braindecode_censor.storage.files import StoreError, locked
from braindecode_censor.storage.store import Store

FORK = multiprocessing.get_context("fork")  # Everything is imported already, so that a run takes seconds.
ATTACKS = int(os.environ.get("ATTACKS", "2"))
FRESH = ATTACKS > 2
LONGEST = 120  # seconds that any run may take before the test fails
TABLES = ("scores.csv", "table.csv", "search.csv", "selected.json")


def _run(out, fresh, options, n_done, sign):
    os.setsid()  # Ctrl-C reaches all processes of a terminal's job; pytest-xdist's workers ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    left = iter(range(n_done or 0))

    def count(event, args):
        if event == "os.rename" and str(args[1]).endswith(".training") and next(left, None) is None:
            out.with_suffix(".ended").write_text(str(time.monotonic()))
            os.killpg(0, sign)

    if n_done is not None:
        sys.addaudithook(count)
    with contextlib.nullcontext() if fresh else forking_joblib():
        run(out, **options)


def start(out, fresh=False, n_done=None, sign=signal.SIGINT, **options):
    """Start a run in a process, which gets a signal when so many trainings are finished and another one is written.

    `fresh` workers import everything again.
    """
    process = FORK.Process(target=_run, args=(out, fresh, options, n_done, sign))
    process.start()
    return process


def end(process):
    """Wait for a process; one that hangs is killed and fails the test."""
    process.join(LONGEST)
    if process.is_alive():
        process.kill()
        process.join()
        pytest.fail("a run hangs")
    return process.exitcode


def wait_for(count, out, process):
    """Wait until `count` trainings are finished or the process has ended."""
    limit = time.monotonic() + LONGEST
    while len(finished(out)) < count and process.is_alive():
        assert time.monotonic() < limit, "nothing is being trained"
        time.sleep(0.01)


def check_store(out):
    """Assert that every file can be read; return the modification time of every training."""
    if (out / "experiment.json").exists():
        json.loads((out / "experiment.json").read_text())
    for path in out.glob("moabb/**/*.hdf5"):
        with h5py.File(path) as file:
            assert len(file) == 3
    store = Store(out / "trainings")
    paths = {path.stem: path for path in store.folder.glob("*.training")}
    assert not any(store.read(key) is None for key in paths)
    return {key: path.stat().st_mtime_ns for key, path in paths.items()}


def assert_same(out, reference):
    for name in TABLES:
        assert (out / name).read_bytes() == (reference.out / name).read_bytes(), name
    assert len(finished(out)) == len(set(finished(out)))
    assert not list(out.rglob("*.part")) and not list(out.glob(".moabb-*"))


def test_killed_run_is_resumed(tmp_path, reference):
    rng = random.Random(1)
    for k in range(ATTACKS):
        out, n_done = tmp_path / str(k), rng.randrange(len(finished(reference.out)))
        assert end(start(out, n_done=n_done, sign=signal.SIGKILL)) == -signal.SIGKILL
        before, logged = check_store(out), finished(out)
        assert end(start(out)) == 0
        after = check_store(out)
        assert len(before) == n_done
        assert all(after[key] == stamp for key, stamp in before.items()), (
            "a finished training was written again"
        )
        assert not set(finished(out)[len(logged) :]) & set(before), "a finished training was repeated"
        assert_same(out, reference)


def test_workers_end_with_their_parent(tmp_path, reference):
    out = tmp_path / "out"
    process = start(out, fresh=FRESH, n_jobs=2)
    wait_for(2, out, process)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert process.is_alive() and len(workers) >= 2
    process.kill()
    end(process)
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive, "workers go on training without a parent"
    before = finished(out)
    run(out)
    assert finished(out)[: len(before)] == before
    assert_same(out, reference)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupted_run_ends_soon_and_is_resumed(n_jobs, tmp_path, reference):
    out = tmp_path / "out"
    assert end(start(out, n_jobs=n_jobs, n_done=2)) != 0
    seconds = time.monotonic() - float(out.with_suffix(".ended").read_text())
    assert seconds < seconds_to_end() and 2 <= len(check_store(out)) < len(finished(reference.out))
    run(out)
    assert_same(out, reference)


def test_two_runs_in_one_folder_are_refused(tmp_path):
    with locked(tmp_path), pytest.raises(StoreError, match="another process is working"):
        run(tmp_path)


@contextlib.contextmanager
def mounted(folder, size):
    """Mount a small file system, which needs the rights of root."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    if subprocess.run(command, capture_output=True, timeout=10).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True, timeout=10)


def test_full_disk_keeps_finished_trainings(tmp_path, reference):
    with mounted(tmp_path / "small", "96k") as small:
        out = small / "out"
        with pytest.raises(StoreError, match=r"the disk is full.*kept.*resume"):
            run(out)
        done = check_store(out)
        assert 0 < len(done) < 14 and not list(out.rglob("*.part"))
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True, timeout=10)
        run(out)
        assert set(done) <= set(check_store(out))
        assert_same(out, reference)


def test_disk_that_fills_while_moabb_writes_is_an_error(tmp_path, reference):
    with mounted(tmp_path / "small", "64m") as small:
        out = copy_of(reference.out, small / "out")
        (next(out.glob("moabb/**/*.hdf5"))).unlink()
        used = sum(4096 * (1 + path.stat().st_size // 4096) for path in small.rglob("*"))
        subprocess.run(["mount", "-o", f"remount,size={used + 8192}", small], check=True, timeout=10)
        with contextlib.suppress(OSError), open(small / "filler", "wb") as file:
            while True:
                file.write(b"x" * 4096)
                file.flush()
        assert end(start(out)) == 1, "an error, not a signal"
        assert not list(out.rglob("*.part"))
        (small / "filler").unlink()
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True, timeout=10)
        run(out)
        assert_same(out, reference)


def test_read_only_folder_is_an_error(tmp_path):
    with mounted(tmp_path / "fixed", "1m") as fixed:
        (fixed / "out").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", fixed], check=True, timeout=10)
        with pytest.raises(StoreError, match=r"it is read-only.*another folder"):
            run(fixed / "out")
        assert not list((fixed / "out").iterdir())
