"""One training without two people, and what it says about them."""

import contextlib
import time
import warnings
from dataclasses import replace

import numpy as np
import sklearn
import torch
from sklearn.utils.metadata_routing import get_routing_for_object
from skorch.callbacks import Callback

from braindecode_censor.classical.estimator import TangentSpaceClassifier
from braindecode_censor.run.pair_data import Outcome
from braindecode_censor.training.classifier import CensoredEEGClassifier
from braindecode_censor.trials.stored import take_part

__all__ = [
    "OutOfTime",
    "calibration_trials",
    "decode_rest",
    "heldout_probabilities",
    "pack_model",
    "quiet",
    "train_pair",
    "train_pairs",
    "unpack_model",
]

_SPARE = 1.2  # the next training may take so many times longer than the one before
_CALIBRATION = 0.2  # of the trials of every class, as in MOABB's smallest labelled mode


class OutOfTime(Exception):
    """A training took longer than predicted, and was given up."""


class _Deadline(Callback):
    """Gives a training up when its time is over."""

    def __init__(self, deadline):
        self.deadline = deadline

    def on_batch_end(self, net, **kwargs):
        """Look at the clock."""
        if time.time() > self.deadline:
            raise OutOfTime


def train_pairs(candidate, positions, steps, data, deadline=None, expected=0.0, give_up=None):
    """Train one candidate without several pairs, one after the other."""
    outcomes = []
    for position in positions:
        if deadline is not None and time.time() + expected > deadline:
            break
        try:
            outcomes.append(train_pair(candidate, position, steps, data, give_up))
        except OutOfTime:
            break
        expected = _SPARE * outcomes[-1].seconds
        if outcomes[-1].error is not None:
            break  # the others would fail as well
    return outcomes


def train_pair(candidate, position, steps, data, give_up=None):
    """Train one candidate without one pair."""
    started = time.perf_counter()
    outcome = Outcome(candidate.name, position, steps)
    try:
        with _one_thread(data.device), quiet():
            estimator = data.make(candidate, position, steps)
            seen = data.seen_without(position)
            if give_up is not None and candidate.kind == "network":
                estimator.set_params(callbacks=[("deadline", _Deadline(give_up))])
            X = take_part(data.X, seen)
            if candidate.kind == "own":  # which may not know how to read from a file
                X = np.asarray(X)
            _fit(estimator, X, data.y[seen], data.people[seen])
            outcome = test_on_pair(estimator, outcome, data)
    except (ValueError, RuntimeError, TypeError, np.linalg.LinAlgError) as error:
        outcome = replace(outcome, error=f"{type(error).__name__}: {error}".splitlines()[0])
    return replace(outcome, seconds=time.perf_counter() - started)


def test_on_pair(estimator, outcome, data):
    """Let a fitted estimator decode the two people whom it has not seen."""
    found = []
    for person in data.pairs[outcome.position]:
        mine = data.trials_of(person)
        found.append(
            heldout_probabilities(estimator, data.X[mine], data.y[mine], data.target, data.n_classes)
        )
    return replace(outcome, first=found[0], second=found[1], model=pack_model(estimator))


test_on_pair.__test__ = False  # its name looks like a test's


def _fit(estimator, X, y, people):
    with sklearn.config_context(enable_metadata_routing=True):
        wants = get_routing_for_object(estimator).consumes("fit", ["subjects"])
        estimator.fit(X, y, **({"subjects": people} if wants else {}))
    if getattr(estimator, "complete_", True) is False:
        raise KeyboardInterrupt  # skorch swallows it and returns a net that looks fitted


def heldout_probabilities(model, X, y, target, n_classes):
    """Return what a decoder says about a person whom it has not seen."""
    given = calibration_trials(y) if target == "labeled" else np.zeros(len(X), dtype=bool)
    if target == "unlabeled":
        model = adapt_to(model, X)
    elif given.any():
        model = adapt_to(model, X[given], y[given])
    return decode_rest(model, X, given, n_classes)


def decode_rest(model, X, given, n_classes):
    """Let a model decode the trials of a person that it was not given before."""
    probabilities = np.full((len(X), n_classes), np.nan)
    probabilities[~given] = 0
    probabilities[np.ix_(~given, np.asarray(model.classes_, dtype=int))] = model.predict_proba(X[~given])
    if not np.isfinite(probabilities[~given]).all():
        raise ValueError("probabilities are not finite.")
    return probabilities


def adapt_to(model, X, y=None):
    """Adapt a decoder, with the classes where it can use them."""
    if not hasattr(model, "adapt"):
        return model
    if y is None or not getattr(model, "uses_labels", True):
        return model.adapt(X)
    known = np.isin(y, model.classes_)
    return model.adapt(X[known], y[known]) if known.any() else model.adapt(X)


def calibration_trials(y):
    """Tell which trials of a person would be labelled first."""
    given = np.zeros(len(y), dtype=bool)
    for k in np.unique(y):
        mine = np.flatnonzero(y == k)
        given[mine[: min(max(1, round(_CALIBRATION * len(mine))), len(mine) - 1)]] = True
    return given


@contextlib.contextmanager
def quiet():
    """Keep a decoder's remarks to itself: about a person without trials, which the search says once, and about gaps.

    In the numbers of people there are gaps wherever two are left out together.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no trials of the new person")
        warnings.filterwarnings("ignore", message="The subject labels .* are not consecutive")
        warnings.filterwarnings("ignore", category=sklearn.exceptions.ConvergenceWarning)
        yield


@contextlib.contextmanager
def _one_thread(device):
    """Sums of several threads round differently, and N trainings on N cores are faster than one on all."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if device == "cpu" else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_KINDS = {"classical": TangentSpaceClassifier, "network": CensoredEEGClassifier}


def pack_model(estimator):
    """Return a fitted estimator in the form in which it travels and is stored."""
    return estimator.to_bytes() if isinstance(estimator, tuple(_KINDS.values())) else estimator


def unpack_model(kind, model, device="cpu"):
    """Return the fitted estimator again."""
    if kind == "own":
        return model
    return _KINDS[kind].from_bytes(model, **({"device": device} if kind == "network" else {}))
