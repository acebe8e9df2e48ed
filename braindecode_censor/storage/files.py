"""Files of a folder of results: written in full or not at all, by one process at a time, with clear errors."""

import contextlib
import errno
import os
import platform
import stat
import tempfile
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

__all__ = ["SCRATCH", "StoreError", "clean", "clear_errors", "locked", "make_scratch", "write_atomically"]
__all__ += ["is_abandoned", "owner", "read_file"]

_LARGEST = 2**30  # bytes of a file that is read
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
        if is_abandoned(path.name.split(".")[0]):
            path.unlink(missing_ok=True)


def owner():
    """Return the name of this process for its files: machines may share a folder."""
    return f"{platform.node().replace('.', '_')}-{os.getpid()}"


def is_abandoned(name):
    """Return whether the process that :func:`owner` named was one of this machine and has ended."""
    node, _, pid = name.rpartition("-")
    return node == owner().rpartition("-")[0] and pid.isdigit() and not psutil.pid_exists(int(pid))


def read_file(path):
    """Return the bytes of a regular file; devices, pipes and files of several GB raise OSError."""
    # Without O_NONBLOCK, opening a pipe waits for its writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise OSError(errno.EINVAL, f"it is no regular file of at most {_LARGEST:.1e} bytes", str(path))
        return file.read(status.st_size)


def make_scratch(folder):
    """Return the path of a new scratch file; :func:`clean` removes it after the end of this process."""
    with clear_errors(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(SCRATCH, f"{owner()}.", folder)
        os.close(handle)
    return Path(name)


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
