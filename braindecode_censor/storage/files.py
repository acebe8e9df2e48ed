"""Files of a folder of results: written in full or not at all, by one process at a time, with clear errors."""

import contextlib
import errno
import fcntl
import os
import tempfile
from pathlib import Path

__all__ = ["SCRATCH", "StoreError", "clean", "clear_errors", "locked", "open_scratch", "write_atomically"]

#: How the names of files end that are nobody's results and go with the process that made them.
SCRATCH = ".scratch"


class StoreError(OSError):
    """The folder of results cannot be used; the message says why and what to do."""

    def __str__(self):
        return self.strerror or super().__str__()


@contextlib.contextmanager
def locked(out):
    """Make sure that one process at a time writes to a folder; a killed one leaves no lock behind."""
    with clear_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        file = open(out / ".lock", "a")  # noqa: SIM115
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                errno.EBUSY, f"another process is working in {out}: wait for it or choose another folder"
            ) from None
        yield


def clean(out):
    """Remove what a killed process left half written."""
    for path in Path(out).rglob("*.part"):
        path.unlink(missing_ok=True)
    for path in Path(out).glob(f"*{SCRATCH}"):
        # its process may live, or be this one, or end while we look
        with contextlib.suppress(BlockingIOError, FileNotFoundError), open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def open_scratch(folder):
    """Open a file that is gone when it is closed; :func:`clean` removes that of a killed process."""
    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = tempfile.NamedTemporaryFile(dir=folder, suffix=SCRATCH)  # noqa: SIM115
        fcntl.flock(file, fcntl.LOCK_EX)  # tells that this process lives
    return file


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
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name, too, must survive a power cut
        finally:
            os.close(folder)


@contextlib.contextmanager
def clear_errors(folder):
    """Turn errors of the file system into ones that say what to do."""
    try:
        yield
    except OSError as error:
        reasons = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up"}
        reasons |= {errno.EROFS: "it is read-only", errno.EACCES: "writing is not allowed"}
        reasons |= {errno.ENOTDIR: "a part of the path is a file", errno.EEXIST: "it is a file, not a folder"}
        reason = reasons.get(error.errno, str(error))
        raise StoreError(
            error.errno,
            f"cannot write to {folder}: {reason}. What was finished before is kept; make room or choose "
            "another folder, then resume",
        ) from error
