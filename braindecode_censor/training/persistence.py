"""Saving and loading a fitted estimator as one safetensors file: tensors and a JSON header, nothing else; copies."""

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from braindecode_censor._version import __version__
from braindecode_censor.encoders.resolve import whole_module
from braindecode_censor.training.task_loss import FoldCrossEntropy
from braindecode_censor.trials.normalize import SubjectNormalizer

__all__ = [
    "copy_classifier",
    "load_classifier",
    "read_state",
    "reduce_classifier",
    "save_classifier",
    "unsaved_params",
    "write_state",
]

_FORMAT = "braindecode-censor classifier 2"
_FITTED = ("valid_score_", "best_epoch_", "valid_subject_", "signal_args_", "adapted_")


def save_classifier(clf, path):
    """Write a fitted estimator.

    Notes
    -----
    What only training needs (optimiser, critic, callbacks, history) is not written.
    """
    clf.check_is_fitted()
    fitted, tensors = read_state(clf)
    header = {
        "params": _plain_params(clf),
        "unsaved": sorted(unsaved_params(clf)),
        **fitted,
        "version": __version__,
    }
    save_file(tensors, path, metadata={"format": _FORMAT, "header": json.dumps(header)})


def load_classifier(kind, path, **params):
    """Read an estimator that :func:`save_classifier` wrote."""
    header, tensors = _read(path)
    missing = [name for name in header["unsaved"] if name not in params]
    if missing:
        given = ", ".join(f"{name}=..." for name in missing)
        raise ValueError(
            f"{path} was saved from an estimator whose {', '.join(missing)} cannot be written to a file without code: "
            f"pass load(path, {given}) with what it had."
        )
    clf = kind(**{**header["params"], **params})
    try:
        return write_state(clf, header, tensors)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit {type(whole_module(clf.module_)).__name__}: {error}") from None


def read_state(clf):
    """Return what a fitted estimator has learnt, beside its parameters."""
    normalizer = clf.normalizer_.get_state()
    fitted = {
        "fitted": {name: _plain(getattr(clf, name, None)) for name in _FITTED},
        "classes": clf.classes_.tolist(),
        "normalizer": normalizer["settings"],
    }
    parts = {
        "module": whole_module(clf.module_).state_dict(),
        "normalizer": {name: torch.as_tensor(array) for name, array in normalizer["arrays"].items()},
        "head": clf.head_ or {},
    }
    tensors = {
        f"{part}.{name}": tensor.detach().cpu().contiguous()
        for part, named in parts.items()
        for name, tensor in named.items()
    }
    return fitted, tensors


def write_state(clf, fitted, tensors):
    """Make an estimator a fitted one again."""
    for name in _FITTED:
        setattr(clf, name, fitted["fitted"][name])
    clf.classes_inferred_ = np.asarray(fitted["classes"])
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced at once
        clf.initialize()
    whole_module(clf.module_).load_state_dict(_part(tensors, "module"))
    arrays = {name: tensor.numpy() for name, tensor in _part(tensors, "normalizer").items()}
    clf.normalizer_ = SubjectNormalizer.from_state({"settings": fitted["normalizer"], "arrays": arrays})
    clf.head_ = {name: tensor.to(clf.device) for name, tensor in _part(tensors, "head").items()} or None
    return clf


def copy_classifier(clf, memo=None):
    """Copy an estimator; what only training needs (optimiser, critic) is not copied."""
    if not clf._was_fitted:
        return type(clf)(**copy.deepcopy(clf.get_params(deep=False), memo))
    return _rebuild(*copy.deepcopy(_parts(clf), memo))


def reduce_classifier(clf):
    """Take a fitted estimator apart for pickle, because a network with parametrisations has no other way."""
    if isinstance(clf.module, torch.nn.Module):
        raise pickle.PicklingError(
            f"module={type(clf.module).__name__}(...) is an object, which torch cannot pickle: pass its class, and "
            "its arguments as module__<name>=..., or use save(path)."
        )
    return _rebuild, _parts(clf)


def _parts(clf):
    return type(clf), clf.get_params(deep=False), *read_state(clf), list(clf.history)


def _rebuild(kind, params, fitted, tensors, history):
    clf = write_state(kind(**params), fitted, tensors)
    clf.history.extend(history)
    return clf


def _part(tensors, name):
    return {
        key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")
    }


def unsaved_params(clf):
    """Return what a file cannot hold and predictions depend on."""
    plain = _plain_params(clf)
    decisive = {
        "module",
        "predict_nonlinearity",
        "criterion",
    }  # skorch takes the nonlinearity from the criterion
    return {
        name: value
        for name, value in clf.get_params(deep=False).items()
        if name not in plain
        and (name in decisive or name.startswith("module__"))
        and value is not FoldCrossEntropy
    }


def _read(path):
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not a file.")
    foreign = f"{path} is not a file that CensoredEEGClassifier.save wrote, or it is damaged"
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{foreign}: {error}.") from None
    if metadata.get("format") != _FORMAT:
        raise ValueError(
            f"{foreign}: its format is {metadata.get('format')!r}, expected {_FORMAT!r}. Files of other versions "
            "cannot be read: train again."
        )
    try:
        header = json.loads(metadata["header"])
        for name in ("params", "unsaved", "fitted", "classes", "normalizer"):
            header[name]
        for name in _FITTED:
            header["fitted"][name]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{foreign}: its header cannot be read.") from None
    return header, tensors


def _plain_params(clf):
    """The parameters that JSON can hold."""
    plain = {}
    for name, value in clf.get_params(deep=False).items():
        try:
            json.dumps(value := _plain(value))
        except TypeError:
            continue
        plain[name] = value
    return plain


def _plain(value):
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
