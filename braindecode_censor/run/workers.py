"""Worker processes: they end with their parent, and know the user's own measures and score estimators."""

import contextlib
import ctypes
import os
import sys
import threading
import time

import psutil

__all__ = ["add_parts", "end_with", "own_parts"]

_INTERVAL = 0.2  # seconds between two looks at the parent


def end_with(parent):
    """End this process as soon as its parent has ended, however that came about."""
    if parent == os.getpid() or any(thread.name == "end_with" for thread in threading.enumerate()):
        return
    if sys.platform == "linux":  # Imports hold Python's lock for seconds, and the thread waits for it.
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: the kernel ends it
    try:
        process = psutil.Process(parent)
    except psutil.NoSuchProcess:
        os._exit(1)

    def watch():
        with contextlib.suppress(psutil.NoSuchProcess):
            # is_running() compares start times, so that a new process with the same number is not taken for the parent.
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(_INTERVAL)
        os._exit(1)

    threading.Thread(target=watch, name="end_with", daemon=True).start()


def own_parts():
    """Return the measures and the score estimators by name, among them those of the user."""
    return tuple(map(dict, _registries()))


def add_parts(parts):
    """Register measures and score estimators that the user has defined in the calling process."""
    for registry, named in zip(_registries(), parts):
        registry.update(named)


def _registries():
    from braindecode_censor.numerics.scores import SCORES
    from braindecode_censor.penalties.measures import MEASURES

    return MEASURES, SCORES
