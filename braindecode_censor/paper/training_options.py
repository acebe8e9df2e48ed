"""Checks of the arguments that all trainings of an experiment share, before anything is trained."""

import inspect

import torch

from braindecode_censor._check import check_keywords, check_size
from braindecode_censor.encoders.resolve import resolve_module
from braindecode_censor.paper.grid import BASELINE
from braindecode_censor.paper.trainings import make_estimator
from braindecode_censor.training.arguments import check_arguments

__all__ = ["check_training"]

# The experiment sets these for every training.
_FIXED = {"random_state", "valid_subject", "all_subjects", "penalty", "censoring", "weight"}
_FIXED |= {"module__n_chans", "module__n_times", "module__n_outputs"}


def check_training(training, on_this_machine=True):
    """Return the arguments that all trainings share, raising for wrong ones."""
    for name in _FIXED & training.keys():
        raise ValueError(f"training has {name!r}, which the experiment sets: leave it out.")
    for name in ("callbacks", "dataset"):
        if isinstance(training.get(name), (str, int, float)):
            raise ValueError(f"training has {name}={training[name]!r}, which cannot be a word: leave it out.")
    clf = make_estimator(BASELINE, 0, training, [1, 2, 3, 4])
    check_arguments(clf)
    check_size("batch_size", clf.batch_size, 2)
    if not isinstance(clf.module, str):
        raise ValueError(f"module={clf.module!r} must be the name of a network of Braindecode.")
    options = {name.removeprefix("module__"): value for name, value in training.items() if "module__" in name}
    valid_options = inspect.signature(resolve_module(clf.module, fast=False)).parameters
    check_keywords(f"training: module={clf.module!r}", options, valid_options)
    if torch.device(clf.device).type == "cuda" and on_this_machine and not torch.cuda.is_available():
        raise ValueError(f"device={clf.device!r}: torch finds no GPU on this machine; use device='cpu'.")
    return training
