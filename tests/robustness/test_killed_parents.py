"""A fit with workers, or a save, that is killed or interrupted: no process stays, and a decoder can always be loaded.

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

import numpy as np
import psutil
import pytest
from processes import forking_joblib, seconds_to_end
from subjects import fit_decoder, mixed_subjects

import braindecode_censor as bc
from braindecode_censor.storage.files import owner

pytestmark = pytest.mark.filterwarnings("ignore:target='unlabeled', but the decoder is not adapted")
ATTACKS = int(os.environ.get("ATTACKS", "1"))
MARK = "TEST_OF_KILLED_PARENTS"
FORK = multiprocessing.get_context("fork")  # Everything is imported already; workers import it again.
X, Y, SUBJECTS = mixed_subjects(6)
TINY = {"name": "net", "network": "EEGNet", "max_steps": 300}


@pytest.fixture(scope="module")
def decoder():
    return fit_decoder(X, Y, SUBJECTS, candidates=["power"], max_trainings=3)


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
        limit = time.monotonic() + seconds_to_end()
        while (remaining := marked(mark)) and time.monotonic() < limit:
            time.sleep(0.1)
        for worker in remaining:
            worker.kill()
        assert not remaining, (delay, len(remaining))
    assert n_seen, "every fit was killed before it had workers"


def fit_for_ever(out, n_jobs):
    os.setsid()  # Ctrl-C reaches all processes of a terminal's job.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    candidates = ["power", {**TINY, "max_steps": 10**6}]
    options = {"time_limit": None, "device": "cpu", "verbose": 0, "folder": out / "search"}
    with forking_joblib():
        clf = bc.AutoTransferClassifier(candidates=candidates, n_jobs=n_jobs, **options)
        clf.fit(X, Y, subjects=SUBJECTS).save(out / "decoder")


@pytest.mark.usefixtures("decoder")  # It has imported everything.
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupted_fit_ends_soon_with_what_is_finished(n_jobs, tmp_path):
    process = FORK.Process(target=fit_for_ever, args=(tmp_path, n_jobs))
    process.start()
    while len(list(tmp_path.glob("search/*.training"))) < 3 and process.is_alive():
        time.sleep(0.01)  # The three classical trainings that test every subject once are finished.
    workers = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    began = time.monotonic()
    process.join(120)
    seconds = time.monotonic() - began
    _, remaining = psutil.wait_procs(workers, seconds_to_end())
    for one in [*remaining, *([process] if process.is_alive() else [])]:
        one.kill()
    assert process.exitcode == 0 and not remaining and seconds < seconds_to_end()
    board = bc.AutoTransferClassifier.load(tmp_path / "decoder", device="cpu").leaderboard_
    # The search may be interrupted between storing the third and counting it.
    assert board.set_index("candidate")["trainings"]["power"] >= 2
    assert len(list(tmp_path.glob("search/*.training"))) >= 3


def save_until(n, sign, clf, folder):
    """Save, and be killed or interrupted at the n-th operation on files."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    left = iter(range(n))

    def count(event, args):
        if event in {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"} and next(left, None) is None:
            os.kill(os.getpid(), sign)

    sys.addaudithook(count)
    with contextlib.suppress(KeyboardInterrupt):
        clf.save(folder, overwrite=True)
        os._exit(0)
    os._exit(130)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_decoder_survives_a_save_that_ends_at_any_operation_on_files(sign, decoder, tmp_path):
    folder, n_left = tmp_path / "a.decoder", 0
    decoder.save(folder)
    expected = decoder.predict_proba(X[:3])
    for n in range(1000):
        process = FORK.Process(target=save_until, args=(n, sign, decoder, folder))
        process.start()
        process.join()
        n_left += len(list(tmp_path.iterdir())) > 1
        again = bc.AutoTransferClassifier.load(folder, device="cpu")
        np.testing.assert_array_equal(again.predict_proba(X[:3]), expected)
        if process.exitcode == 0:
            break
    assert n > 5 and (n_left > 3 or sign == signal.SIGINT)
    decoder.save(folder, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.decoder"]


@pytest.mark.parametrize("left", ["old", "part"])
def test_what_a_killed_save_left_is_used_and_removed(left, decoder, tmp_path):
    """The rarest moments by hand: between the two renames, and before the first."""
    decoder.save(tmp_path / "decoder")
    node = owner().rpartition("-")[0]
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    hidden = tmp_path / f".decoder.{node}-{ended.pid}.{left}"
    (tmp_path / "decoder").rename(hidden)
    if left == "old":
        assert (
            bc.AutoTransferClassifier.load(tmp_path / "decoder").classes_.tolist()
            == decoder.classes_.tolist()
        )
        with pytest.raises(ValueError, match="holds a decoder"):  # found again, and not overwritten
            decoder.save(tmp_path / "decoder")
    decoder.save(tmp_path / "decoder", overwrite=left == "old")
    assert [path.name for path in tmp_path.iterdir()] == ["decoder"]
