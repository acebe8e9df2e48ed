"""The folder of an experiment: who may write to it, what it is about, and how files get into it."""

import contextlib
import errno
import fcntl
import json
import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch

__all__ = [
    "StoreError",
    "clean",
    "clear_errors",
    "locked",
    "open_experiment",
    "read_experiment",
    "write_atomically",
]

_FORMAT = 1  # of experiment.json and of the remembered trainings


class StoreError(OSError):
    """The folder of results cannot be used; the message says why and what to do."""

    def __str__(self):
        return self.strerror or super().__str__()


@contextlib.contextmanager
def locked(out):
    """Make sure that one process at a time writes to a folder; a killed one leaves no lock behind.

    Parameters
    ----------
    out : Path
        Folder, made if need be.
    """
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
    """Remove what a killed process left half written.

    Parameters
    ----------
    out : Path
        Folder of an experiment, locked.
    """
    for path in out.rglob("*.part"):
        path.unlink(missing_ok=True)
    for path in out.glob(".moabb-*"):
        shutil.rmtree(path, ignore_errors=True)


def open_experiment(out, identity):
    """Claim a folder for an experiment, or recognise it as the one already there.

    A folder in which nothing was trained yet is given to whoever asks.

    Parameters
    ----------
    out : Path
        Folder.
    identity : dict
        All that decides about the numbers, as JSON can hold it.
    """
    path = out / "experiment.json"
    try:
        identity = json.loads(json.dumps({"format": _FORMAT, **identity}))
    except TypeError as error:
        raise ValueError(
            f"training and dataset_options must hold plain numbers, strings and lists, so that the experiment "
            f"can be written down: {error}."
        ) from None
    used = [file for file in out.rglob("*") if file.is_file() and file.name not in (path.name, ".lock")]
    if path.exists() and used:
        known = read_experiment(out)["identity"]
        changed = sorted(key for key in {*known, *identity} if known.get(key) != identity.get(key))
        if changed:
            there = {key: known.get(key) for key in changed}
            here = {key: identity.get(key) for key in changed}
            raise ValueError(
                f"out={str(out)!r} holds another experiment, which differs in {', '.join(changed)}: there "
                f"{_short(there)}, now {_short(here)}. Nothing was changed; choose another folder."
            )
        return
    content = {"identity": identity, "provenance": provenance()}
    write_atomically(path, json.dumps(content, indent=1).encode())


def read_experiment(out):
    """Return what an experiment's folder is about.

    Parameters
    ----------
    out : Path
        Folder.

    Returns
    -------
    content : dict
        ``identity`` and ``provenance``.
    """
    path = Path(out) / "experiment.json"
    try:
        content = json.loads(path.read_text())
        content["identity"], content["provenance"]
    except FileNotFoundError:
        raise ValueError(
            f"out={str(out)!r} holds no experiment: start one with `autotransfer run`."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be read ({error}): restore it or choose another folder.") from None
    return content


def provenance():
    """Return when, with which code and on what machine, in words.

    Returns
    -------
    provenance : dict
        Date, git commit or None, machine, Python.
    """
    here = Path(__file__).parent
    try:
        git = subprocess.run(
            ["git", "-C", here, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        )
        commit = git.stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        commit = None
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    machine = f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores, {gpu}"
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return {"started": started, "commit": commit, "machine": machine, "python": platform.python_version()}


def _short(values, length=300):
    text = json.dumps(values)
    return text if len(text) <= length else text[:length] + " …"


def write_atomically(path, content):
    """Write a file so that it is there in full or not at all, also after a power cut.

    Parameters
    ----------
    path : Path
        File; its folder is made if need be.
    content : bytes
        What to write.
    """
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
    """Turn errors of the file system into ones that say what to do.

    Parameters
    ----------
    folder : Path
        Where it was written.
    """
    try:
        yield
    except OSError as error:
        reasons = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up"}
        reasons |= {errno.EROFS: "it is read-only", errno.EACCES: "writing is not allowed"}
        reason = reasons.get(error.errno, str(error))
        raise StoreError(
            error.errno,
            f"cannot write to {folder}: {reason}. What was finished before is kept; make room or choose "
            "another folder, then resume",
        ) from error
