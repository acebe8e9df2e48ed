"""A fit with workers, or a save, that is killed at any moment: no process stays, and a decoder can always be loaded.

``ATTACKS=20 python -m pytest tests/robustness`` kills twenty fits; the short version two.
"""

import os
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil

import braindecode_censor as bc

ATTACKS = int(os.environ.get("ATTACKS", "2"))
MARK = "TEST_OF_KILLED_PARENTS"
FIT = """
import sys, warnings
warnings.simplefilter("ignore")
import braindecode_censor as bc
from braindecode_censor.datasets import SimulatedSubjects
X, y, subjects = SimulatedSubjects(6, 30, n_chans=4, duration=0.5).arrays()
print("start", flush=True)
options = {"n_jobs": 3, "candidates": ["riemann", "subject"], "verbose": 0, "time_limit": None}
bc.AutoTransferClassifier(**options).fit(X, y, subjects)
"""


def marked(mark):
    """Return the processes that inherited a mark, however their parents have ended."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def start(code, *arguments):
    """Start Python code in a process that marks all of its descendants."""
    mark = uuid.uuid4().hex
    path = os.pathsep.join([str(Path(bc.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {MARK: mark, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL), mark


def test_no_worker_outlives_a_killed_fit():
    rng, seen = random.Random(time.time_ns()), []
    for k in range(ATTACKS):
        process, mark = start(FIT)
        assert process.stdout.readline() == b"start\n"
        # Workers start during the first seconds, and train afterwards.
        delay = rng.uniform(0, 3) if k % 2 else rng.uniform(3, 12)
        time.sleep(delay)
        n_workers = len(marked(mark)) - 1
        process.kill()
        process.wait()
        limit = time.monotonic() + 5
        while marked(mark) and time.monotonic() < limit:
            time.sleep(0.1)
        remaining = [" ".join(p.cmdline()) for p in marked(mark)]
        for p in marked(mark):
            p.kill()
        seen.append(n_workers)
        print(f"{delay:.1f}: {n_workers}, {len(remaining)}")
        assert not remaining, (delay, remaining)
    assert max(seen) > 0, "every fit was killed before it had workers"
