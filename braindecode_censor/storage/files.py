"""Files of a folder of results: written in full or not at all, by one process at a time, with clear errors."""

import contextlib
import errno
import os
import platform
import tempfile
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

__all__ = ["SCRATCH", "StoreError", "clean", "clear_errors", "locked", "make_scratch", "write_atomically"]

#: How the names of files end that belong to one process and go with it.
SCRATCH = ".scratch"


class StoreError(OSError):
    """The folder of results cannot be used; the message says why and what to do."""

    def __str__(self):
        return self.strerror or super().__str__()


@contextlib.contextmanager
def locked(out):
    """Let one process at a time write to a folder; the lock of a killed process is free again."""
    with clear_errors(out):
        Path(out).mkdir(parents=True, exist_ok=True)
        lock = FileLock(Path(out, ".lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise StoreError(
                errno.EBUSY, f"another process is working in {out}: wait for it or choose another folder"
            ) from None
    try:
        yield
    finally:
        lock.release()


def clean(out):
    """Remove incomplete files, and scratch files whose process has ended."""
    for path in Path(out).rglob("*.part"):
        path.unlink(missing_ok=True)
    for path in Path(out).glob(f"*{SCRATCH}"):
        node, _, pid = path.name.split(".")[0].rpartition("-")
        if node == _node() and not psutil.pid_exists(int(pid)):
            path.unlink(missing_ok=True)


def make_scratch(folder):
    """Return the path of a new scratch file; :func:`clean` removes it after the end of this process."""
    with clear_errors(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        # The name says whose file it is, because machines may share a folder.
        handle, name = tempfile.mkstemp(SCRATCH, f"{_node()}-{os.getpid()}.", folder)
        os.close(handle)
    return Path(name)


def _node():
    return platform.node().replace(".", "_")


def write_atomically(path, content):
    """Write a file so that it is there in full or not at all, also after a power cut."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with clear_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(part, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
        if os.name == "posix":  # Windows opens no folders.
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # The new name, too, must survive a power cut.
            finally:
                os.close(folder)


@contextlib.contextmanager
def clear_errors(folder):
    """Turn errors of the file system into ones that say what to do."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        reasons = {errno.ENOSPC: "the disk is full", errno.EROFS: "it is read-only"}
        reasons |= {errno.EACCES: "writing is not allowed", errno.ENOTDIR: "a part of the path is a file"}
        reasons |= {errno.EEXIST: "it is a file, not a folder"}
        if hasattr(errno, "EDQUOT"):
            reasons[errno.EDQUOT] = "the quota is used up"
        reason = reasons.get(error.errno, str(error))
        raise StoreError(
            error.errno,
            f"cannot write to {folder}: {reason}. What was finished before is kept; make room or choose "
            "another folder, then resume",
        ) from error
