"""A fitted estimator as bytes (tensors and a JSON header), and copies of it."""

import copy
import inspect
import json
import pickle
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, JsonValue, TypeAdapter
from torch.overrides import TorchFunctionMode

from braindecode_censor._version import __version__
from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.encoders.resolve import resolve_module, whole_module
from braindecode_censor.storage.schema import Count, Label, Option, Positive, Schema, Size
from braindecode_censor.storage.tensors import read_tensors, write_tensors
from braindecode_censor.training.arguments import check_arguments
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

_FORMAT = "braindecode-censor classifier 4"
# Making these takes longer than all else of a file.
_JSON, _OPTION = TypeAdapter(JsonValue), TypeAdapter(Option)
# Arguments on which predictions depend: what a file cannot hold of these has to be passed to load.
_DECIDING = {"module", "criterion", "predict_nonlinearity", "classes", "cropped", "aggregate_predictions"}


class _Fitted(Schema):
    valid_score_: float
    best_epoch_: Count | None
    valid_subject_: Label | list[Label] | None
    signal_args_: dict[Literal["n_chans", "n_times", "n_outputs", "sfreq"], Size | Positive]
    adapted_: bool


class _Header(Schema):
    params: dict[str, JsonValue]
    options: dict[Annotated[str, Field(pattern="^(module|penalty)__")], Option]
    unsaved: list[str]
    fitted: _Fitted
    classes: list[Label]
    normalizer: dict[str, JsonValue]
    version: str


def write_classifier(clf):
    """Return a fitted estimator as bytes, without what only training needs: optimiser, critic, callbacks, history."""
    clf.check_is_fitted()
    plain, (fitted, tensors) = _plain_params(clf), read_state(clf)
    header = {**plain, "unsaved": sorted(_unsaved(clf, plain)), **fitted, "version": __version__}
    return write_tensors(tensors, header, _FORMAT)


def read_classifier(cls, content, name, params):
    """Return the estimator that :func:`write_classifier` wrote; `name` is what errors call the content."""
    header, tensors = read_tensors(content, _FORMAT, name, _Header)
    missing = [param for param in header.unsaved if param not in params]
    if missing:
        arguments = ", ".join(f"{param}=..." for param in missing)
        raise ValueError(
            f"{name} was saved from an estimator whose {', '.join(missing)} cannot be written without code: pass "
            f"load(path, {arguments}) with the same values."
        )
    foreign = ", ".join(header.params.keys() - _own_names(cls))
    if foreign:
        raise ValueError(
            f"{name} sets {foreign}, which is never taken from a file: pass it to load yourself."
        )
    params = {**header.params, **header.options, **params}
    try:
        clf = cls(**params)
        check_arguments(clf)
        fitted = header.model_dump()
        clf.signal_args_ = fitted["fitted"]["signal_args_"]
        n_numbers = sum(tensor.numel() for tensor in _select(tensors, "module").values())
        if resolve_module(clf.module, clf.fast) is not FastEEGNet:
            _check_size(clf, n_numbers)
            return write_state(clf, fitted, tensors)
        with _Limit(n_numbers):
            return write_state(clf, fitted, tensors)
    except RuntimeError as error:
        raise ValueError(f"{name} does not fit module={params.get('module')!r}: {error}") from None
    except Exception as error:  # Constructors of modules raise errors of any type.
        raise ValueError(f"{name} is damaged, or written by something else: {error}") from None


def _own_names(cls):
    """Return the arguments that a file may hold: those that the estimator declares, but none of skorch."""
    return inspect.signature(cls.__init__).parameters.keys() - {"self", "kwargs"}


class _Limit(TorchFunctionMode):
    """Raise before the layers of an EEGNet, which begin as empty tensors, hold more numbers than the file."""

    def __init__(self, n_numbers):
        super().__init__()
        self.n_left = self.n_numbers = n_numbers

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.empty:
            self.n_left -= func(*args, **{**kwargs, "device": "meta"}).numel()
            if self.n_left < 0:
                raise RuntimeError(f"it has more than the {self.n_numbers} numbers of the file.")
        return func(*args, **kwargs)


def _check_size(clf, n_numbers):
    """Raise if the module is larger than its tensors, before any memory is taken for it.

    On the meta device a forward pass imports torch's compiler, for seconds; hence not for the default network.
    """
    try:
        with torch.device("meta"):
            module = resolve_module(clf.module, clf.fast)
            module = clf.initialized_instance(module, clf.get_params_for("module"))
    except RuntimeError:  # Some modules compute with their weights when they are built.
        return
    n_expected = sum(tensor.numel() for tensor in module.state_dict().values())
    if n_expected != n_numbers:
        raise RuntimeError(f"it has {n_expected} numbers, the file {n_numbers}.")


def read_state(clf):
    """Return the fitted attributes of an estimator as a JSON header and tensors."""
    normalizer = clf.normalizer_.get_state()
    fitted = {
        "fitted": {name: _plain(getattr(clf, name, None)) for name in _Fitted.model_fields},
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
    for name in _Fitted.model_fields:
        setattr(clf, name, fitted["fitted"].get(name))
    clf.classes_inferred_ = np.asarray(fitted["classes"])
    with torch.random.fork_rng(devices=[]):  # The weights drawn here are replaced below.
        clf.initialize()
    module, weights = whole_module(clf.module_), _select(tensors, "module")
    for name, tensor in module.state_dict().items():
        if name not in weights:  # torch forgives a missing count of batches.
            raise RuntimeError(f"{name} is missing.")
        if weights[name].dtype != tensor.dtype:
            raise ValueError(f"{name} is of {weights[name].dtype}, expected {tensor.dtype}.")
    module.load_state_dict(weights)
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
    """Return the parameters that a file cannot hold and predictions depend on."""
    return _unsaved(clf, _plain_params(clf))


def _unsaved(clf, plain):
    saved, default = plain["params"] | plain["options"], type(clf)()
    return {
        name: value
        for name, value in clf.get_params(deep=False).items()
        if name not in saved
        and (
            name.startswith("module__") or (name in _DECIDING and not _is_same(value, getattr(default, name)))
        )
    }


def _is_same(value, default):
    return value is default or (isinstance(value, str) and value == default)  # a text that came from a worker


def _plain_params(clf):
    """Return the arguments that a file can hold, and the options of module and penalty."""
    plain, own_names = {"params": {}, "options": {}}, _own_names(type(clf))
    for name, value in clf.get_params(deep=False).items():
        is_own = name in own_names
        try:
            value = (_JSON if is_own else _OPTION).validate_json(json.dumps(_plain(value)))
        except (TypeError, ValueError):
            continue
        if is_own or name.startswith(("module__", "penalty__")):
            plain["params" if is_own else "options"][name] = value
    return plain


def _plain(value):
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
