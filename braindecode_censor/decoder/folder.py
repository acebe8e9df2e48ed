"""A decoder as a folder: safetensors and JSON, sealed by checksums, nothing that could be executed."""

import hashlib
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from braindecode_censor.decoder.ensemble import Ensemble, Model
from braindecode_censor.decoder.input import InputFormat
from braindecode_censor.run.pair_trainings import pack_model, unpack_model
from braindecode_censor.search.expectation import HeldoutScores
from braindecode_censor.storage.files import clear_errors
from braindecode_censor.storage.keys import as_plain

__all__ = ["check_free", "read_decoder", "write_decoder"]

_FORMAT = "braindecode-censor decoder 1"
_FILE = "decoder.json"


def check_free(folder):
    """Raise if a decoder cannot be written to a folder, before anybody has waited for one."""
    folder = Path(folder)
    if folder.exists() and not (folder / _FILE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is no decoder: choose another folder.")
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if not above.is_dir():
        raise ValueError(f"{folder} cannot be made, because {above} is a file: choose another folder.")
    return folder


def write_decoder(clf, folder, card):
    """Write a fitted classifier."""
    folder = check_free(folder)
    own = sorted({model.candidate for model in clf.ensemble_.models if model.kind == "own"})
    if own:
        raise ValueError(
            f"{', '.join(own)}: an estimator of your own cannot be written to a folder without code. Leave it out of "
            "candidates, or keep the classifier in memory."
        )
    files = {
        f"models/{k:03d}.safetensors": pack_model(m.estimator) for k, m in enumerate(clf.ensemble_.models)
    }
    files["model_card.md"] = card.encode()
    content = _describe(clf, files)
    seal = _digest(json.dumps(content, sort_keys=True).encode())
    head = {"format": _FORMAT, "seal": seal, "content": content}
    files[_FILE] = json.dumps(head, indent=1).encode()
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    with clear_errors(folder.parent):
        try:
            for name, text in files.items():
                path = part / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text)
            _replace(part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _replace(part, folder):
    """Put a new decoder in the place of an old one; until it is there, the old one is not deleted."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        os.replace(folder, old)
    try:
        os.replace(part, folder)
    except OSError:
        if old.exists():
            os.replace(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _describe(clf, files):
    models = [
        {"file": name, "candidate": m.candidate, "kind": m.kind, "position": m.position, "weight": m.weight}
        for name, m in zip(files, clf.ensemble_.models)
    ]
    heldout = asdict(clf.heldout_)
    heldout["scores"] = [[as_plain(person), score] for person, score in clf.heldout_.scores.items()]
    return {
        "versions": clf.versions_,
        "params": _plain_params(clf),
        "classes": clf.classes_.tolist(),
        "subjects": clf.subjects_.tolist(),
        "n_trials": clf.n_trials_,
        "input": asdict(clf.input_),
        "adapted": clf.adapted_,
        "candidates": clf.specs_,
        "errors": clf.errors_,
        "heldout": heldout,
        "leaderboard": json.loads(clf.leaderboard_.to_json(orient="records", double_precision=15)),
        "models": models,
        "checksums": {name: _digest(text) for name, text in files.items()},
    }


def _plain_params(clf):
    """The arguments that JSON can hold, without those that belong to the machine of the search."""
    params = clf.get_params(deep=False)
    return {
        k: v for k, v in params.items() if _is_plain(v) and k not in ("folder", "client", "n_jobs", "device")
    }


def _is_plain(value):
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def _digest(content):
    return hashlib.sha256(content).hexdigest()


def read_decoder(clf_class, folder, device):
    """Read a classifier that :func:`write_decoder` wrote."""
    folder = Path(folder)
    content = _read_content(folder)
    files = {name: _read_file(folder, name, digest) for name, digest in content["checksums"].items()}
    clf = clf_class(**content["params"])
    clf.classes_ = np.asarray(content["classes"])
    clf.subjects_ = np.asarray(content["subjects"])
    clf.n_trials_, clf.versions_, clf.errors_ = content["n_trials"], content["versions"], content["errors"]
    clf.input_, clf.specs_, clf.adapted_ = (
        InputFormat(**content["input"]),
        content["candidates"],
        content["adapted"],
    )
    scores = {person: score for person, score in content["heldout"].pop("scores")}
    clf.heldout_ = HeldoutScores(scores, **content["heldout"])
    clf.leaderboard_ = pd.DataFrame(content["leaderboard"])
    models = [
        Model(
            m["candidate"],
            m["kind"],
            m["position"],
            m["weight"],
            unpack_model(m["kind"], files[m["file"]], device),
        )
        for m in content["models"]
    ]
    clf.ensemble_ = Ensemble(models, len(clf.classes_))
    clf.general_ = None if clf.adapted_ else clf.ensemble_
    return clf


def _read_content(folder):
    path = folder / _FILE
    if not path.is_file():
        raise ValueError(f"{folder} holds no decoder: there is no {_FILE} in it.")
    try:
        head = json.loads(path.read_bytes())
        version, seal, content = head["format"], head["seal"], head["content"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged: copy the folder again.") from None
    if version != _FORMAT:
        raise ValueError(f"{path} has the format {version!r}, expected {_FORMAT!r}: fit the decoder anew.")
    if seal != _digest(json.dumps(content, sort_keys=True).encode()):
        raise ValueError(f"{path} was changed after it was written: copy the folder again.")
    return content


def _read_file(folder, name, digest):
    try:
        content = (folder / name).read_bytes()
    except OSError:
        raise ValueError(f"{folder / name} is missing: copy the folder again.") from None
    if _digest(content) != digest:
        raise ValueError(f"{folder / name} was changed after it was written: copy the folder again.")
    return content
