"""What the experiment of a folder is: a file that says it, and refuses to be edited."""

import hashlib
import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch

from braindecode_censor.storage.files import SCRATCH, write_atomically

__all__ = ["FORMAT", "open_experiment", "read_experiment"]

#: Of the whole folder. A folder of another format is refused: what it holds cannot be compared with new results.
FORMAT = 2
# What may be added to an experiment later, because no training that was done before depends on it.
_MAY_GROW = ("grid", "seeds", "top", "trials", "nested", "others")


def open_experiment(out, identity):
    """Claim a folder for an experiment, or recognise it as the one already there.

    A folder in which nothing was trained yet is given to whoever asks. Seeds, settings, trials of Optuna, the nested
    rule and other pipelines can be added to an experiment: then the file is written anew, and whatever was trained
    stays valid.
    """
    path = out / "experiment.json"
    try:
        identity = json.loads(json.dumps({"format": FORMAT, **identity}))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"training and dataset_options must hold plain numbers, strings and lists, so that the experiment "
            f"can be written down: {error}."
        ) from None
    others = (file for file in out.rglob("*") if file.name not in (path.name, ".lock"))
    used = [file for file in others if file.is_file() and file.suffix != SCRATCH]
    if not used:
        _write(path, identity, provenance())
        return
    if not path.exists():
        raise ValueError(
            f"out={str(out)!r} holds files but no experiment.json, so nobody can tell what they are about: restore it "
            "or choose another folder."
        )
    content = read_experiment(out)
    known = content["identity"]
    _check_same(out, known, identity)
    if known != identity:
        _write(path, identity, content["provenance"])


def _check_same(out, known, identity):
    changed = [
        key
        for key in dict.fromkeys([*known, *identity])
        if known.get(key) != identity.get(key)
        and not (key in _MAY_GROW and _grows(known.get(key), identity.get(key)))
    ]
    if changed:
        there = {key: known.get(key) for key in changed}
        here = {key: identity.get(key) for key in changed}
        raise ValueError(
            f"out={str(out)!r} holds another experiment, which differs in {', '.join(changed)}: there "
            f"{_short(there)}, now {_short(here)}. Nothing was changed; choose another folder, or ask for at least "
            "what is there (seeds and settings can be added)."
        )


def _grows(before, now):
    """Whether all that was asked for before is asked for again."""
    if isinstance(before, dict):
        return before.items() <= now.items()
    if isinstance(before, list):
        return all(item in now for item in before)
    return before <= now


def read_experiment(out):
    """Return what an experiment's folder is about."""
    path = Path(out) / "experiment.json"
    try:
        content = json.loads(path.read_text())
        identity, made = content["identity"], content["provenance"]
        number = identity.get("format")
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(
            f"out={str(out)!r} holds no experiment: start one with `autotransfer run`."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} cannot be read ({_short(str(error), 100)}): restore it or choose another folder."
        ) from None
    seals = content.get("sha256")
    if number != FORMAT and (seals is None or seals.get("format") == _digest(number)):
        raise ValueError(
            f"{path} is of format {number}, and this version reads and writes format {FORMAT}: its trainings cannot "
            "be compared with new ones. Use the version that made it, or start anew in another folder."
        )
    if not isinstance(seals, dict):
        raise ValueError(
            f"{path} was changed by hand: sha256 is missing. Restore it or choose another folder."
        )
    now = _seals(identity, made)
    edited = [key for key in dict.fromkeys([*now, *seals]) if now.get(key) != seals.get(key)]
    if edited:
        raise ValueError(
            f"{path} was changed after it was written, in {', '.join(edited)}. It says what the trainings of this "
            "folder are about: restore it, or start anew in another folder."
        )
    return {"identity": identity, "provenance": made}


def _write(path, identity, made):
    content = {"identity": identity, "provenance": made, "sha256": _seals(identity, made)}
    write_atomically(path, json.dumps(content, indent=1).encode())


def _seals(identity, made):
    """A checksum for every entry, so that a changed one can be named."""
    return {key: _digest(value) for key, value in identity.items()} | {"provenance": _digest(made)}


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def provenance():
    """Return when, with which code and on what machine, in words."""
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
    text = values if isinstance(values, str) else json.dumps(values)
    return text if len(text) <= length else text[:length] + " …"
