"""A decoder as a folder of safetensors and JSON with checksums, without code."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from braindecode_censor.decoder.ensemble import Ensemble, Model
from braindecode_censor.decoder.input import InputFormat
from braindecode_censor.run.model import is_storable, pack_model, unpack_model
from braindecode_censor.search.expectation import HeldoutScores
from braindecode_censor.storage.files import clear_errors
from braindecode_censor.storage.keys import as_plain
from braindecode_censor.storage.seal import digest

__all__ = ["check_free", "read_decoder", "write_decoder"]

_FORMAT = "braindecode-censor decoder 1"
_FILE = "decoder.json"
_OF_THE_MACHINE = ("folder", "client", "n_jobs", "device")  # arguments that say nothing about the decoder


def check_free(folder):
    """Raise if a decoder cannot be written to a folder."""
    folder = Path(folder)
    if folder.exists() and not (folder / _FILE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is not a decoder: choose another folder.")
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if not above.is_dir():
        raise ValueError(f"{folder} cannot be made, because {above} is a file: choose another folder.")
    return folder


def write_decoder(clf, folder, card):
    """Write a fitted classifier."""
    folder = check_free(folder)
    models = clf.ensemble_.models
    names = sorted({m.candidate for m in models if not is_storable(m.estimator)})
    if names:
        raise ValueError(
            f"{', '.join(names)}: an estimator of your own cannot be written to a folder without code. Leave it out of "
            "candidates, or keep the classifier in memory."
        )
    files = {f"models/{k:03d}.safetensors": pack_model(m.estimator) for k, m in enumerate(models)}
    files["model_card.md"] = card.encode()
    content = _describe(clf, files)
    seal = digest(json.dumps(content, sort_keys=True).encode())
    head = {"format": _FORMAT, "seal": seal, "content": content}
    files[_FILE] = json.dumps(head, indent=1).encode()
    scratch = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    with clear_errors(folder.parent):
        try:
            for name, text in files.items():
                path = scratch / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text)
            _replace(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _replace(scratch, folder):
    """Replace an old decoder; until the new one is there, the old one is not deleted."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        os.replace(folder, old)
    try:
        os.replace(scratch, folder)
    except OSError:
        if old.exists():
            os.replace(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _describe(clf, files):
    models = [
        {"file": name, "candidate": m.candidate, "fold": m.fold, "weight": m.weight}
        for name, m in zip(files, clf.ensemble_.models)
    ]
    heldout = asdict(clf.heldout_)
    heldout["scores"] = [[as_plain(subject), score] for subject, score in clf.heldout_.scores.items()]
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
        "checksums": {name: digest(text) for name, text in files.items()},
    }


def _plain_params(clf):
    params = clf.get_params(deep=False)
    return {name: value for name, value in params.items() if name not in _OF_THE_MACHINE and _is_plain(value)}


def _is_plain(value):
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def read_decoder(clf_class, folder, device):
    """Read a classifier that :func:`write_decoder` wrote."""
    folder = Path(folder)
    content = _read_content(folder)
    files = {name: _read_file(folder, name, checksum) for name, checksum in content["checksums"].items()}
    clf = clf_class(**content["params"])
    clf.classes_ = np.asarray(content["classes"])
    clf.subjects_ = np.asarray(content["subjects"])
    clf.n_trials_, clf.versions_, clf.errors_ = content["n_trials"], content["versions"], content["errors"]
    clf.input_, clf.specs_ = InputFormat(**content["input"]), content["candidates"]
    clf.adapted_ = content["adapted"]
    scores = {subject: score for subject, score in content["heldout"].pop("scores")}
    clf.heldout_ = HeldoutScores(scores, **content["heldout"])
    clf.leaderboard_ = pd.DataFrame(content["leaderboard"])
    models = [
        Model(m["candidate"], m["fold"], m["weight"], unpack_model(files[m["file"]], device))
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
        raise ValueError(f"{path} has the format {version!r}, expected {_FORMAT!r}: fit the decoder again.")
    if seal != digest(json.dumps(content, sort_keys=True).encode()):
        raise ValueError(f"{path} was changed after it was written: copy the folder again.")
    return content


def _read_file(folder, name, checksum):
    try:
        content = (folder / name).read_bytes()
    except OSError:
        raise ValueError(f"{folder / name} is missing: copy the folder again.") from None
    if digest(content) != checksum:
        raise ValueError(f"{folder / name} was changed after it was written: copy the folder again.")
    return content
