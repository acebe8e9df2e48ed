"""Folders that take long are made once per run of the tests, not once per worker."""

import os

from filelock import FileLock

_home = None


def set_home(tmp_path_factory):
    """Remember the folder that all workers of this run share."""
    global _home
    base = tmp_path_factory.getbasetemp()  # under xdist each worker has its own, in the run's folder
    _home = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def once(name, make):
    """Return a folder that `make(folder)` has filled, in this process or in another one; do not change it."""
    folder = _home / name
    with FileLock(f"{folder}.lock"):
        if not (folder / "made").exists():
            make(folder / "out")
            (folder / "made").touch()
    return folder / "out"
