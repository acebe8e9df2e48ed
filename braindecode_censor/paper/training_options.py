"""Checks of the arguments that all trainings of an experiment share, before anything is trained."""

import inspect
from difflib import get_close_matches

import torch

from braindecode_censor._check import check_size
from braindecode_censor.encoders.resolve import resolve_module
from braindecode_censor.paper.grid import BASELINE
from braindecode_censor.paper.trainings import make_estimator
from braindecode_censor.training.arguments import check_arguments

__all__ = ["check_training"]

# Argument -> what decides about it in an experiment.
_FIXED = {
    "random_state": "random_state of AutoTransfer decides",
    "valid_subject": "the folds decide",
    "all_subjects": "the dataset decides",
    "penalty": "preset decides",
    "censoring": "preset decides",
    "weight": "preset decides",
    "module__n_chans": "the trials decide",
    "module__n_times": "the trials decide",
    "module__n_outputs": "the trials decide",
}
# skorch takes objects for these, which no file of settings can hold.
_OBJECTS = ("callbacks", "criterion", "iterator_train", "iterator_valid", "train_split", "dataset")


def check_training(training, on_this_machine=True):
    """Return the arguments that all trainings share, raising for wrong ones."""
    if not isinstance(training, dict) or not all(isinstance(name, str) for name in training):
        raise ValueError(f"training={training!r} must be a mapping, such as {{'max_epochs': 50}}.")
    for name in _FIXED.keys() & training.keys():
        raise ValueError(f"training has {name!r}, which {_FIXED[name]}: leave it out.")
    for name in _OBJECTS:
        if isinstance(training.get(name), (str, int, float)):
            raise ValueError(f"training has {name}={training[name]!r}, which cannot be a word: leave it out.")
    try:
        clf = make_estimator(BASELINE, 0, training, [1, 2, 3, 4])
    except TypeError as error:
        raise ValueError(f"training: {error}") from None
    check_arguments(clf)
    check_size("batch_size", clf.batch_size, 2)
    if clf.patience is not None:
        check_size("patience", clf.patience)
    _check_module(clf.module, training)
    _check_device(clf.device, on_this_machine)
    return training


def _check_module(module, training):
    if not isinstance(module, str):
        raise ValueError(f"module={module!r} must be the name of a network of Braindecode.")
    options = inspect.signature(resolve_module(module, fast=False)).parameters
    for name in training:
        option = name.removeprefix("module__")
        if option != name and option not in options:
            near = get_close_matches(option, options, n=1)
            hint = f" Did you mean 'module__{near[0]}'?" if near else ""
            raise ValueError(f"training has {name!r}, but {module} has no option {option!r}.{hint}")


def _check_device(device, on_this_machine):
    device_type = torch.device(device).type if isinstance(device, (str, torch.device)) else None
    if device_type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"device={device!r} is unknown; use 'cpu' or 'cuda'.")
    if device_type == "cuda" and on_this_machine and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}: torch finds no GPU on this machine; use device='cpu'.")
