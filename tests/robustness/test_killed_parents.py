"""A fit with workers, or a save, that is killed at any moment: no process stays, and a decoder can always be loaded.

``ATTACKS=20 python -m pytest tests/robustness`` kills twenty fits; the short version one.
"""

import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import uuid
import warnings

import numpy as np
import psutil
import pytest
from subjects import mixed_subjects

import braindecode_censor as bc
from braindecode_censor.storage.files import owner

ATTACKS = int(os.environ.get("ATTACKS", "1"))
MARK = "TEST_OF_KILLED_PARENTS"
FORK = multiprocessing.get_context("fork")  # Everything is imported already; workers import it again.
X, Y, SUBJECTS = mixed_subjects(6)
TINY = {"name": "net", "network": "EEGNet", "max_steps": 300}


def marked(mark):
    """Return the processes that inherited a mark, however their parents have ended."""
    workers = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                workers.append(process)
    return workers


def fit(mark):
    os.environ[MARK] = mark
    clf = bc.AutoTransferClassifier(
        time_limit=None, candidates=["riemann", TINY], n_jobs=3, device="cpu", verbose=0
    )
    clf.fit(X, Y, subjects=SUBJECTS)


def seconds_to_start():
    """Return how long a process takes that does nothing, so that the test does not depend on the machine's load."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import joblib"], check=True)
    return time.monotonic() - began


def test_no_worker_outlives_a_killed_fit():
    rng, n_seen = random.Random(time.time_ns()), 0
    for k in range(ATTACKS):
        mark = uuid.uuid4().hex
        process = FORK.Process(target=fit, args=(mark,))
        process.start()
        while k == 0 and not marked(mark) and process.is_alive():  # once at the very beginning of the workers
            time.sleep(0.01)
        delay = rng.uniform(0, 1 if k % 2 == 0 else 12)
        time.sleep(delay)
        n_seen += len(marked(mark)) > 0
        process.kill()
        process.join()
        limit = time.monotonic() + 5 + 3 * seconds_to_start()
        while (remaining := marked(mark)) and time.monotonic() < limit:
            time.sleep(0.1)
        for worker in remaining:
            worker.kill()
        assert not remaining, (delay, len(remaining))
    assert n_seen, "every fit was killed before it had workers"


def save_until(n, clf, folder):
    """Save, and be killed at the n-th operation on files."""
    left = iter(range(n))

    def count(event, args):
        if event in {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"} and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    clf.save(folder, overwrite=True)


def test_decoder_survives_a_save_that_is_killed_at_any_operation_on_files(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clf = bc.AutoTransferClassifier(candidates=["power"], max_trainings=3, device="cpu", verbose=0)
        clf.fit(X, Y, subjects=SUBJECTS)
        folder, n_left = tmp_path / "a.decoder", 0
        clf.save(folder)
        expected = clf.predict_proba(X[:3])
        for n in range(1000):
            process = FORK.Process(target=save_until, args=(n, clf, folder))
            process.start()
            process.join()
            n_left += len(list(tmp_path.iterdir())) > 1
            again = bc.AutoTransferClassifier.load(folder, device="cpu")
            np.testing.assert_array_equal(again.predict_proba(X[:3]), expected)
            if process.exitcode == 0:
                break
        assert n > 5 and n_left > 3
        clf.save(folder, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.decoder"]


@pytest.mark.parametrize("left", ["old", "part"])
def test_what_a_killed_save_left_is_used_and_removed(left, tmp_path):
    """The rarest moments by hand: between the two renames, and before the first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clf = bc.AutoTransferClassifier(candidates=["power"], max_trainings=3, device="cpu", verbose=0)
        clf.fit(X, Y, subjects=SUBJECTS).save(tmp_path / "decoder")
    node = owner().rpartition("-")[0]
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    hidden = tmp_path / f".decoder.{node}-{ended.pid}.{left}"
    (tmp_path / "decoder").rename(hidden)
    if left == "old":
        assert bc.AutoTransferClassifier.load(tmp_path / "decoder").classes_.tolist() == clf.classes_.tolist()
        with pytest.raises(ValueError, match="holds a decoder"):  # found again, and not overwritten
            clf.save(tmp_path / "decoder")
    clf.save(tmp_path / "decoder", overwrite=left == "old")
    assert [path.name for path in tmp_path.iterdir()] == ["decoder"]
