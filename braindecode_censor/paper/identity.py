"""The file that says which experiment a folder holds."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from textwrap import shorten

import torch

from braindecode_censor.storage.files import SCRATCH, write_atomically
from braindecode_censor.storage.seal import digest

__all__ = ["FORMAT", "open_experiment", "read_experiment"]

#: Format of the whole folder; another one is refused, because its trainings cannot be compared with new ones.
FORMAT = 3
# No finished training depends on these, so they may be added to.
_MAY_GROW = ("grid", "seeds", "n_top", "n_optuna_trials", "others")


def open_experiment(out, identity):
    """Claim a folder for an experiment, or check that it holds this one.

    A folder without results is free. Seeds, configurations, trials of Optuna and other pipelines can be added to an
    experiment.
    """
    path = out / "experiment.json"
    try:
        identity = json.loads(json.dumps({"format": FORMAT, **identity}))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"training and dataset_options must hold plain numbers, strings and lists, so that the experiment "
            f"can be written down: {error}."
        ) from None
    files = (file for file in out.rglob("*") if file.name not in (path.name, ".lock"))
    if not any(file.is_file() and file.suffix != SCRATCH for file in files):
        _write(path, identity, provenance())
        return
    if not path.exists():
        raise ValueError(
            f"out={str(out)!r} holds files but no experiment.json, which says what they are about: restore it "
            "or choose another folder."
        )
    content = read_experiment(out)
    _check_same(out, content["identity"], identity)
    if content["identity"] != identity:
        _write(path, identity, content["provenance"])


def _check_same(out, stored, identity):
    changed = [
        key
        for key in dict.fromkeys([*stored, *identity])
        if stored.get(key) != identity.get(key)
        and not (key in _MAY_GROW and _grows(stored.get(key), identity.get(key)))
    ]
    if changed:
        there, here = (
            shorten(str({k: values.get(k) for k in changed}), 300) for values in (stored, identity)
        )
        raise ValueError(
            f"out={str(out)!r} holds another experiment, which differs in {', '.join(changed)}: there {there}, now "
            f"{here}. Nothing was changed; choose another folder, or ask for at least what is there (seeds and "
            "configurations can be added)."
        )


def _grows(before, now):
    """Return whether `now` holds all of `before`."""
    return all(item in now for item in before) if isinstance(before, list) else before <= now


def read_experiment(out):
    """Return the identity and the provenance of an experiment's folder."""
    path = Path(out) / "experiment.json"
    try:
        content = json.loads(path.read_text())
        identity, stored_provenance = content["identity"], content["provenance"]
        number, checksum = identity.get("format"), content.get("sha256")
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(
            f"out={str(out)!r} holds no experiment: start one with `autotransfer run`."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} cannot be read ({shorten(str(error), 100)}): restore it or choose another folder."
        ) from None
    if number != FORMAT:
        raise ValueError(
            f"{path} is of format {number}, and this version reads and writes format {FORMAT}: use the version that "
            "made it, or start in another folder."
        )
    if checksum != _digest(identity, stored_provenance):
        raise ValueError(f"{path} was changed after it was written: restore it, or start in another folder.")
    return {"identity": identity, "provenance": stored_provenance}


def _write(path, identity, stored_provenance):
    content = {"identity": identity, "provenance": stored_provenance}
    content["sha256"] = _digest(identity, stored_provenance)
    write_atomically(path, json.dumps(content, indent=1).encode())


def _digest(identity, stored_provenance):
    return digest(json.dumps([identity, stored_provenance], sort_keys=True).encode())


def provenance():
    """Return the start and the machine, in words."""
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    machine = f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores, {gpu}"
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return {"started": started, "machine": machine, "python": platform.python_version()}
