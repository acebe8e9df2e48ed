"""A fitted estimator as bytes (tensors and a JSON header), and copies of it."""

import copy
import json
import pickle

import numpy as np
import torch

from braindecode_censor._version import __version__
from braindecode_censor.encoders.resolve import whole_module
from braindecode_censor.storage.tensors import read_tensors, write_tensors
from braindecode_censor.training.task_loss import FoldCrossEntropy
from braindecode_censor.trials.normalize import SubjectNormalizer

__all__ = [
    "copy_classifier",
    "read_classifier",
    "read_state",
    "reduce_classifier",
    "unsaved_params",
    "write_classifier",
    "write_state",
]

_FORMAT = "braindecode-censor classifier 3"
_FITTED = ("valid_score_", "best_epoch_", "valid_subject_", "signal_args_", "adapted_")


def write_classifier(clf):
    """Return a fitted estimator as bytes, without what only training needs: optimiser, critic, callbacks, history."""
    clf.check_is_fitted()
    fitted, tensors = read_state(clf)
    header = {
        "params": _plain_params(clf),
        "unsaved": sorted(unsaved_params(clf)),
        **fitted,
        "version": __version__,
    }
    return write_tensors(tensors, header, _FORMAT)


def read_classifier(cls, content, name, params):
    """Return the estimator that :func:`write_classifier` wrote; `name` is what errors call the content."""
    header, tensors = read_tensors(content, _FORMAT, name)
    missing = [param for param in header.get("unsaved", ()) if param not in params]
    if missing:
        arguments = ", ".join(f"{param}=..." for param in missing)
        raise ValueError(
            f"{name} was saved from an estimator whose {', '.join(missing)} cannot be written without code: pass "
            f"load(path, {arguments}) with the same values."
        )
    try:
        clf = cls(**{**header["params"], **params})
        return write_state(clf, header, tensors)
    except KeyError as error:
        raise ValueError(f"{name} is damaged: it holds no {error}.") from None
    except RuntimeError as error:
        raise ValueError(f"{name} does not fit module={clf.module!r}: {error}") from None


def read_state(clf):
    """Return the fitted attributes of an estimator as a JSON header and tensors."""
    normalizer = clf.normalizer_.get_state()
    fitted = {
        "fitted": {name: _plain(getattr(clf, name, None)) for name in _FITTED},
        "classes": clf.classes_.tolist(),
        "normalizer": normalizer["settings"],
    }
    groups = {
        "module": whole_module(clf.module_).state_dict(),
        "normalizer": {name: torch.as_tensor(array) for name, array in normalizer["arrays"].items()},
        "head": clf.head_ or {},
    }
    tensors = {f"{group}.{name}": tensor for group, named in groups.items() for name, tensor in named.items()}
    return fitted, tensors


def write_state(clf, fitted, tensors):
    """Set the fitted attributes of an estimator."""
    for name in _FITTED:
        setattr(clf, name, fitted["fitted"][name])
    clf.classes_inferred_ = np.asarray(fitted["classes"])
    with torch.random.fork_rng(devices=[]):  # The weights drawn here are replaced below.
        clf.initialize()
    whole_module(clf.module_).load_state_dict(_select(tensors, "module"))
    arrays = {name: tensor.numpy() for name, tensor in _select(tensors, "normalizer").items()}
    clf.normalizer_ = SubjectNormalizer.from_state({"settings": fitted["normalizer"], "arrays": arrays})
    clf.head_ = {name: tensor.to(clf.device) for name, tensor in _select(tensors, "head").items()} or None
    return clf


def copy_classifier(clf, memo=None):
    """Return a copy of an estimator without optimizer and critic."""
    if not clf._was_fitted:
        return type(clf)(**copy.deepcopy(clf.get_params(deep=False), memo))
    return _rebuild(*copy.deepcopy(_state_of(clf), memo))


def reduce_classifier(clf):
    """Return what pickle needs; a network with parametrisations cannot be pickled itself."""
    if isinstance(clf.module, torch.nn.Module):
        raise pickle.PicklingError(
            f"module={type(clf.module).__name__}(...) is an object, which torch cannot pickle: pass its class, and "
            "its arguments as module__<name>=..., or use save(path)."
        )
    return _rebuild, _state_of(clf)


def _state_of(clf):
    return type(clf), clf.get_params(deep=False), *read_state(clf), list(clf.history)


def _rebuild(cls, params, fitted, tensors, history):
    clf = write_state(cls(**params), fitted, tensors)
    clf.history.extend(history)
    return clf


def _select(tensors, group):
    return {name.removeprefix(f"{group}."): x for name, x in tensors.items() if name.startswith(f"{group}.")}


def unsaved_params(clf):
    """Return the parameters that JSON cannot hold and predictions depend on."""
    plain = _plain_params(clf)
    names = (
        "module",
        "predict_nonlinearity",
        "criterion",
    )  # skorch takes the nonlinearity from the criterion.
    return {
        name: value
        for name, value in clf.get_params(deep=False).items()
        if name not in plain
        and (name in names or name.startswith("module__"))
        and value is not FoldCrossEntropy
    }


def _plain_params(clf):
    """Return the parameters that JSON can hold."""
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
