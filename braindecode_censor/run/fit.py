"""One training: fit an estimator, decode the held-out subjects, and collect the result."""

import contextlib
import time

import numpy as np
import sklearn
import torch
from sklearn.base import clone
from sklearn.utils.metadata_routing import get_routing_for_object
from skorch.callbacks import Callback

from braindecode_censor.run.decode import decode_subject, quiet
from braindecode_censor.run.model import is_network, is_storable, pack_model
from braindecode_censor.run.training import TrainingResult
from braindecode_censor.storage.keys import as_plain, versions
from braindecode_censor.training.rules import Pruned

__all__ = ["OutOfTimeError", "collect", "fit_training"]

_ERRORS = (ValueError, RuntimeError, TypeError, np.linalg.LinAlgError)


class OutOfTimeError(RuntimeError):
    """A network was still training at the deadline."""


class _Deadline(Callback):
    """Stop a training at a time, by ``time.time()``."""

    def __init__(self, deadline):
        self.deadline = deadline

    def on_batch_end(self, net, **kwargs):
        if time.time() > self.deadline:
            raise OutOfTimeError("the time limit was reached")


def fit_training(training, data, until=None):
    """Return the result of a training; `until` is when a network is given up, by ``time.time()``."""
    began = time.perf_counter()
    estimator = training.estimator
    try:
        with _one_thread(getattr(estimator, "device", "cpu")), quiet():
            estimator = clone(estimator)
            if is_network(estimator):
                deadline = () if until is None else (("deadline", _Deadline(until)),)
                if training.callbacks or deadline:
                    callbacks = [*(estimator.callbacks or ()), *training.callbacks, *deadline]
                    estimator.set_params(callbacks=callbacks)
            rows = data.rows(training.train)
            _fit(estimator, data.take(rows), data.y[rows], data.subjects[rows])
            result = collect(training, estimator, data)
            result.record["seconds"] = time.perf_counter() - began
            return result
    except Pruned as error:
        return _failed(training, f"pruned: {error}", began, {"pruned": len(estimator.history)})
    except _ERRORS as error:
        return _failed(training, f"{type(error).__name__}: {error}".splitlines()[0], began)


def _failed(training, message, began, facts=None):
    record = {"seconds": time.perf_counter() - began, **(facts or {})}
    return TrainingResult(training, record=record, error=message)


def _fit(estimator, X, y, subjects):
    if not is_storable(estimator):
        X = np.asarray(X)  # A user's own estimator may not know how to read from a file.
    with sklearn.config_context(enable_metadata_routing=True):
        wants = get_routing_for_object(estimator).consumes("fit", ["subjects"])
        estimator.fit(X, y, **({"subjects": subjects} if wants else {}))
    if getattr(estimator, "complete_", True) is False:
        raise KeyboardInterrupt  # skorch swallows it and returns a net that looks fitted.


def collect(training, estimator, data, seconds=0.0):
    """Return what a fitted estimator leaves behind, after it has decoded the held-out subjects."""
    probabilities = {}
    with quiet():
        for subject in training.test:
            rows = data.rows([subject])
            X, y = np.asarray(data.take(rows)), data.y[rows]
            probabilities[subject] = decode_subject(estimator, X, y, training.target, data.n_classes)
    record = {"seconds": seconds, "versions": versions()}
    if is_network(estimator):
        record |= {"params": _plain_params(estimator), "best_epoch": estimator.best_epoch_}
        record |= {"valid_score": estimator.valid_score_, "valid_subject": as_plain(estimator.valid_subject_)}
        wanted = ("train_loss", "valid_loss", "valid_balanced_accuracy")
        columns = [name for name in estimator.history[0] if name in wanted or name.startswith("subject_")]
        record["history"] = {name: [row[name] for row in estimator.history] for name in columns}
    return TrainingResult(training, pack_model(estimator), probabilities, record)


def _plain_params(estimator):
    params = estimator.get_params(deep=False)
    plain = (str, int, float, bool, list, type(None))
    return {k: v for k, v in params.items() if isinstance(v, plain) and k != "callbacks"}


@contextlib.contextmanager
def _one_thread(device):
    """Use one torch thread: several round differently, and n trainings on n cores are faster than one on all."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if device == "cpu" else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
