"""Killed, out of disk, read-only: is everything that was finished still there, and the end the same?"""

import contextlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import time

import h5py
import pytest
from tiny import experiment, finished

from braindecode_censor.storage.files import StoreError, locked
from braindecode_censor.storage.trainings import Memory

FORK = multiprocessing.get_context("fork")  # everything is imported already, so a run takes seconds


def _run(out):
    # pytest-xdist's workers ignore Ctrl-C, and a forked child inherits that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    experiment(out).run()


def start(out):
    process = FORK.Process(target=_run, args=(out,))
    process.start()
    return process


def check_store(out):
    """Nothing unreadable; returns the keys of trainings that are complete."""
    if (out / "experiment.json").exists():
        json.loads((out / "experiment.json").read_text())
    for path in out.glob("moabb/**/*.hdf5"):
        with h5py.File(path) as file:
            assert len(file) == 3
    memory = Memory(out / "trainings")
    records = {path.stem for path in memory.folder.glob("*.json")}
    assert all(memory.read(key) is not None for key in records)
    return {key: memory._path(key, "safetensors").stat().st_mtime_ns for key in records}


def kill_and_resume(out, delay):
    """Kill a run after a delay and let it finish the second time; returns whether it was hit alive."""
    process = start(out)
    process.join(delay)
    alive = process.is_alive()
    if alive:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    before, logged = check_store(out), finished(out)
    again = start(out)
    again.join()
    assert again.exitcode == 0
    after = check_store(out)
    assert all(after[key] == stamp for key, stamp in before.items()), "a finished training was written again"
    assert not set(finished(out)[len(logged) :]) & set(before), "a finished training was repeated"
    return alive


@pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments_and_resumed(tmp_path, reference, count):
    began = time.perf_counter()
    whole = start(tmp_path / "whole")
    whole.join()
    duration = time.perf_counter() - began
    rng, hits = random.Random(count), 0
    for k in range(count):
        out = tmp_path / str(k)
        hits += kill_and_resume(out, rng.uniform(0, duration))
        for name in ("scores.csv", "table.csv", "search.csv", "chosen.json"):
            assert (out / name).read_bytes() == (reference.out / name).read_bytes()
        assert not list(out.rglob("*.part")) and not list(out.glob(".moabb-*"))
    assert hits > 0, "every run was over before it was killed"


def test_ctrl_c_is_resumed_too(tmp_path, reference):
    out = tmp_path / "out"
    process = start(out)
    while len(finished(out)) < 2:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode != 0
    experiment(out).run()
    assert (out / "scores.csv").read_bytes() == (reference.out / "scores.csv").read_bytes()
    assert len(finished(out)) == len(set(finished(out)))


def test_two_runs_in_one_folder_are_refused(tmp_path):
    with locked(tmp_path), pytest.raises(StoreError, match="another process is working"):
        experiment(tmp_path).run()


@contextlib.contextmanager
def mounted(folder, size):
    """A file system of its own; needs the right to mount, as in a container's root."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True
    )
    if made.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_said_and_what_was_finished_stays(tmp_path, reference):
    with mounted(tmp_path / "small", "96k") as small:
        out = small / "out"
        with pytest.raises(StoreError, match=r"the disk is full.*kept.*resume"):
            experiment(out).run()
        done = check_store(out)
        assert 0 < len(done) < 14
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        experiment(out).run()
        assert set(done) <= set(check_store(out))
        assert (out / "scores.csv").read_bytes() == (reference.out / "scores.csv").read_bytes()
        assert len(finished(out)) == len(set(finished(out)))


def test_a_read_only_folder_is_said_and_nothing_changes(tmp_path):
    with mounted(tmp_path / "fixed", "1m") as fixed:
        (fixed / "out").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", fixed], check=True)
        with pytest.raises(StoreError, match=r"it is read-only.*another folder"):
            experiment(fixed / "out").run()
        assert not list((fixed / "out").iterdir())
