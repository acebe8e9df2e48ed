"""A decoder as a folder of safetensors and JSON with checksums, without code; a stranger may have made it."""

import json
import os
import re
import shutil
from dataclasses import asdict, dataclass, replace
from glob import escape
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field, JsonValue

from braindecode_censor.decoder.ensemble import Ensemble, Model
from braindecode_censor.decoder.expectation import HeldoutScores
from braindecode_censor.decoder.export import example_trials
from braindecode_censor.decoder.input import InputFormat
from braindecode_censor.decoder.taught import TaughtStream, TaughtSubject
from braindecode_censor.decoder.teacher import MODES
from braindecode_censor.decoder.teaching_file import pack_teaching, unpack_teaching
from braindecode_censor.run.model import is_storable, pack_model, unpack_model
from braindecode_censor.run.training import TARGETS
from braindecode_censor.storage.files import clear_errors, is_abandoned, owner, read_file
from braindecode_censor.storage.keys import as_plain
from braindecode_censor.storage.schema import Count, Label, Schema, read_json
from braindecode_censor.storage.seal import digest

__all__ = ["check_free", "read_decoder", "write_decoder"]

_FORMAT = "braindecode-censor decoder 3"
_FILE, _CARD, _TEACHING = "decoder.json", "model_card.md", "teaching.safetensors"
_REPORT = "report.html"  # the shell's, which loading does not read
_MODEL = r"models/[0-9]{3}\.safetensors"
_NAMES = "|".join((_FILE, _CARD, _TEACHING, _REPORT, _MODEL))
_ROUNDING = 1e-9
# Of the arguments those that say something about the decoder, not about the machine.
_PARAMS = (
    "time_limit",
    "random_state",
    "candidates",
    "max_trainings",
    "partners",
    "taught",
    "sfreq",
    "ch_names",
)


@dataclass
class _Scores(HeldoutScores):
    scores: list[tuple[Label, float]]  # JSON has no keys but text.


class _Model(Schema):
    file: Annotated[str, Field(pattern=f"^{_MODEL}$")]
    candidate: str
    fold: Count
    weight: Annotated[float, Field(ge=0, le=1)]


class _Content(Schema):
    versions: dict[str, str]
    target: Literal[TARGETS]
    params: dict[Literal[_PARAMS], JsonValue]
    classes: Annotated[list[Label], Field(min_length=2)]
    subjects: list[Label]
    n_trials: Count
    input: InputFormat
    adapted: bool
    stream_prior: Annotated[float, Field(ge=1, le=1e6)]
    candidates: dict[str, JsonValue]
    errors: dict[str, str]
    heldout: _Scores
    leaderboard: list[dict[str, Label | None]]
    models: Annotated[list[_Model], Field(min_length=1, max_length=1000)]
    checksums: dict[str, str]


def check_free(folder, overwrite=False):
    """Return the path to write a decoder to; raise if something else, or an older decoder, is there."""
    try:
        path = Path(os.path.realpath(folder))  # A link stays one.
        is_used = path.is_file() or path == Path.cwd()
        above = next(parent for parent in path.parents if parent.exists())
    except (TypeError, ValueError, OSError) as error:
        raise ValueError(f"folder={folder!r} is no path for a folder: {error}.") from None
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(
            f"{folder} cannot be made, because {above} is a file or read-only: choose another folder."
        )
    _recover(path)
    names = (file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir())
    foreign = next((name for name in names if not re.fullmatch(_NAMES, name)), None)
    if is_used or foreign:
        raise ValueError(
            f"{folder} exists and is not a decoder ({foreign or 'in use'}): choose another folder."
        )
    if any(path.glob("*")) and not overwrite:
        raise ValueError(f"{folder} holds a decoder: choose another folder, or overwrite=True (--overwrite).")
    return path


def _recover(folder):
    """Put back the decoder that a killed process had moved away, and remove what it left unfinished."""
    for path in sorted(folder.parent.glob(f".{escape(folder.name)}.*")):
        if path.suffix in (".old", ".part") and is_abandoned(path.stem.rpartition(".")[2]):
            if path.suffix == ".old" and not folder.exists():
                os.replace(path, folder)
            else:
                shutil.rmtree(path, ignore_errors=True)


def write_decoder(clf, folder, card, overwrite=False):
    """Write a fitted classifier."""
    folder = check_free(folder, overwrite)
    models = clf.ensemble_.models
    names = sorted({m.candidate for m in models if not is_storable(m.estimator)})
    if names:
        raise ValueError(
            f"{', '.join(names)}: an estimator of your own cannot be written to a folder without code. Leave it out of "
            "candidates, or keep the classifier in memory."
        )
    files = {f"models/{k:03d}.safetensors": pack_model(m.estimator) for k, m in enumerate(models)}
    files[_CARD] = card.encode()
    answers = list(clf.answers_.values())
    files[_TEACHING] = pack_teaching(clf.subject_ or clf.teacher_, answers, clf.input_.covariance)
    content = _describe(clf, files)
    seal = digest(json.dumps(content, sort_keys=True).encode())
    head = {"format": _FORMAT, "seal": seal, "content": content}
    files[_FILE] = json.dumps(head, indent=1).encode()
    scratch = folder.with_name(f".{folder.name}.{owner()}.part")
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
    old = folder.with_name(f".{folder.name}.{owner()}.old")
    if folder.exists():
        os.replace(folder, old)
    try:
        os.replace(scratch, folder)
    except BaseException:  # Ctrl-C, too
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
        "target": clf.target,
        "params": _plain_params(clf),
        "classes": clf.classes_.tolist(),
        "subjects": clf.subjects_.tolist(),
        "n_trials": clf.n_trials_,
        "input": {key: value for key, value in asdict(clf.input_).items() if key != "covariance"},
        "adapted": clf.adapted_,
        "stream_prior": clf.stream_prior_,
        "candidates": clf.specs_,
        "errors": clf.errors_,
        "heldout": heldout,
        "leaderboard": json.loads(clf.leaderboard_.to_json(orient="records", double_precision=15)),
        "models": models,
        "checksums": {name: digest(text) for name, text in files.items()},
    }


def _plain_params(clf):
    params = {name: as_plain(getattr(clf, name)) for name in _PARAMS}
    # Candidates of other types than words are among the facts, as specifications that nobody executes.
    plain = (str, int, float, type(None))
    words = {name: value if isinstance(value, list) else [value] for name, value in params.items()}
    return {name: params[name] for name in params if all(isinstance(word, plain) for word in words[name])}


def read_decoder(clf_class, folder, device):
    """Read a classifier that :func:`write_decoder` wrote."""
    folder = Path(folder)
    if not folder.exists():  # A process was killed while it replaced the decoder.
        folder = next(folder.parent.glob(f".{escape(folder.name)}.*.old"), folder)
    content = _read_content(folder)
    clf = clf_class(content.target, **content.params)
    clf.classes_, clf.subjects_ = np.asarray(content.classes), np.asarray(content.subjects)
    clf.n_trials_, clf.versions_, clf.errors_ = content.n_trials, content.versions, content.errors
    clf.input_, clf.specs_, clf.adapted_ = content.input, content.candidates, content.adapted
    clf.stream_prior_ = content.stream_prior
    clf.heldout_ = HeldoutScores(**vars(content.heldout) | {"scores": dict(content.heldout.scores)})
    clf.leaderboard_ = pd.DataFrame(content.leaderboard)
    _read_file(folder, _CARD, content.checksums[_CARD])
    clf.teacher_, clf.subject_, clf.answers_, clf.input_.covariance = _read_teaching(folder, content)
    models = [_read_model(folder, entry, content, device) for entry in content.models]
    clf.ensemble_ = Ensemble(models, len(clf.classes_))
    clf.general_ = None if clf.adapted_ else clf.ensemble_
    return clf


def _read_content(folder):
    path = folder / _FILE
    if not path.exists():
        raise ValueError(f"{folder} holds no decoder: there is no {_FILE} in it.")
    try:
        head = json.loads(_read_file(folder, _FILE))
        version, seal, content = head["format"], head["seal"], head["content"]
        sealed = digest(json.dumps(content, sort_keys=True).encode())
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path} is damaged: copy the folder again.") from None
    if version != _FORMAT:
        raise ValueError(f"{path} has the format {version!r}, expected {_FORMAT!r}: fit the decoder again.")
    if seal != sealed:
        raise ValueError(f"{path} was changed after it was written: copy the folder again.")
    content = read_json(_Content, json.dumps(content), path)
    files = [model.file for model in content.models]
    is_complete = len(set(files)) == len(files) and {*files, _CARD, _TEACHING} == content.checksums.keys()
    if not is_complete or abs(sum(model.weight for model in content.models) - 1) > 1e-6:
        raise ValueError(
            f"{path} is damaged: files, checksums and weights of its models do not fit together."
        )
    return content


def _read_file(folder, name, checksum=None):
    path = folder / name
    try:
        if path.is_symlink() or (path.parent != folder and path.parent.is_symlink()):
            raise OSError("it is a link")
        content = read_file(path)
    except OSError as error:
        raise ValueError(f"{path} is missing or cannot be read ({error}): copy the folder again.") from None
    if checksum is not None and digest(content) != checksum:
        raise ValueError(f"{path} was changed after it was written: copy the folder again.")
    return content


def _check_covariance(matrix, n_chans):
    is_one = (
        isinstance(matrix, np.ndarray) and matrix.shape == (n_chans, n_chans) and matrix.dtype == np.float64
    )
    is_one = is_one and np.allclose(matrix, matrix.T, rtol=0, atol=_ROUNDING)
    if not (is_one and 0 < np.trace(matrix) <= 1 + _ROUNDING and np.linalg.eigvalsh(matrix)[0] > -_ROUNDING):
        raise ValueError("its covariance is not one of the channels")


def _read_teaching(folder, content):
    """Return what teaching learned, after it has decoded a trial, and the covariance of the channels."""
    file = _read_file(folder, _TEACHING, content.checksums[_TEACHING])
    n_classes = len(content.classes)
    try:
        taught, answers, covariance = unpack_teaching(file, folder / _TEACHING)
        subject = taught if isinstance(taught, TaughtSubject) else None
        teacher = subject.teacher if subject else taught
        if teacher and not (
            teacher.limits.shape == teacher.sizes.shape
            and teacher.weights.shape == (len(MODES), *teacher.sizes.shape, 2 + len(teacher.views))
        ):
            raise ValueError("its weights do not fit its sizes")
        trial, uniform = example_trials(content.input, 1), np.full((1, n_classes), 1 / n_classes)
        for tried in [*([TaughtStream(teacher)] if teacher else []), *([subject] if subject else [])]:
            if not np.isclose(tried.predict_proba(trial, uniform).sum(), 1):
                raise ValueError("it gives no probabilities")
        subjects = [subject for subject, _ in content.heldout.scores]
        if len(answers) != len(subjects) or any(p.shape != (len(y), n_classes) for p, y in answers):
            raise ValueError("its held-out probabilities are not of the same subjects and classes")
        if content.input.ch_names is not None:
            _check_covariance(covariance, content.input.n_chans)
    except Exception as error:  # A forged file may raise anything.
        raise ValueError(f"{folder / _TEACHING} does not fit the decoder: {error}.") from None
    return teacher, subject, dict(zip(subjects, answers)), covariance


def _read_model(folder, entry, content, device):
    """Return a model that turns trials into probabilities of the decoder's classes."""
    packed = _read_file(folder, entry.file, content.checksums[entry.file])
    try:
        model = Model(entry.candidate, entry.fold, entry.weight, unpack_model(packed, device))
        alone = Ensemble([replace(model, weight=1.0)], len(content.classes))
        probabilities = alone.predict_proba(example_trials(content.input, 1))
    except Exception as error:  # A forged model may raise anything.
        raise ValueError(f"{folder / entry.file} does not fit the decoder: {error}") from None
    if not (probabilities >= 0).all() or not np.allclose(probabilities.sum(axis=1), 1, atol=1e-3):
        raise ValueError(f"{folder / entry.file} does not fit the decoder: it gives no probabilities.")
    return model
