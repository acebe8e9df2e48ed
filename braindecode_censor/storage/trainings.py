"""Remembered trainings: what was trained once on the same data with the same arguments is read, not trained.

This is where crash safety comes from. MOABB writes its results when a whole dataset is done; a training whose
weights are on disk costs nothing the second time, so MOABB can start from the beginning as often as it likes.
"""

import hashlib
import json
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.base import clone

from braindecode_censor._version import __version__
from braindecode_censor.storage.files import clear_errors, write_atomically
from braindecode_censor.training.classifier import CensoredEEGClassifier
from braindecode_censor.training.rules import DivergedError, Prune, Pruned
from braindecode_censor.trials.splits import validation_subject

__all__ = ["Memory", "Training", "fingerprints", "pack", "train", "training_key", "versions"]

_UNIMPORTANT = {"verbose", "valid_subject", "roster"}  # the first changes nothing, the others are resolved


class Training(NamedTuple):
    """A finished training, as it travels from a worker to the disk.

    Parameters
    ----------
    weights : bytes
        Content of a safetensors file; empty if the training failed.
    record : dict
        Scores, settings and history, or the error.
    """

    weights: bytes
    record: dict


def versions():
    """Return the versions that decide about the numbers.

    Returns
    -------
    versions : dict of str to str
        Package name to version.
    """
    others = ("torch", "braindecode", "skorch", "moabb", "numpy")
    return {"braindecode-censor": __version__, **{name: version(name) for name in others}}


def fingerprints(X, y, subjects, every=1):
    """Return a digest of every subject's trials.

    Parameters
    ----------
    X : ndarray of shape (n_trials, n_chans, n_times)
        Signals.
    y, subjects : ndarray of shape (n_trials,)
        Classes and subjects.
    every : int
        Look at every so many samples of every signal.

    Returns
    -------
    digests : dict of object to str
        Subject to hexadecimal digest of its signals and classes, in their order.
    """
    found, y = {}, np.asarray(y)
    for subject in np.unique(subjects):
        mine = np.flatnonzero(subjects == subject)
        digest = hashlib.sha256(repr((X.shape[1:], X.dtype.str)).encode())
        digest.update(np.ascontiguousarray(X[..., ::every][mine]))
        digest.update(repr(y[mine].tolist()).encode())
        found[_plain(subject)] = digest.hexdigest()
    return found


def training_key(estimator, subjects, digests):
    """Return the name under which a training is remembered.

    Parameters
    ----------
    estimator : CensoredEEGClassifier
        Not fitted.
    subjects : ndarray of shape (n_trials,)
        Subjects of the trials that ``fit`` will see.
    digests : dict of object to str
        From :func:`fingerprints`; may hold subjects that ``fit`` will not see.

    Returns
    -------
    key : str
        Digest of all arguments, the versions and the data. The validation subject enters as the one that
        will be used, so naming it and letting it rotate are the same training.
    """
    params = {k: v for k, v in estimator.get_params(deep=False).items() if k not in _UNIMPORTANT}
    valid = estimator.valid_subject
    if isinstance(valid, str) and valid == "rotate":
        valid = validation_subject(subjects, estimator.roster)
    order = [_plain(subject) for subject in subjects]
    data = {subject: digests[subject] for subject in sorted(set(order), key=str)}
    parts = (type(estimator).__name__, sorted(params.items()), _plain(valid), versions(), order, data)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def train(estimator, X, y, subjects, trial=None):
    """Train a copy of an estimator and return what is worth keeping.

    Parameters
    ----------
    estimator : CensoredEEGClassifier
        Not fitted, and left so.
    X : ndarray of shape (n_trials, n_chans, n_times)
        Signals.
    y, subjects : ndarray of shape (n_trials,)
        Classes and subjects.
    trial : optuna.Trial or None
        Told about every epoch; may cut the training short.

    Returns
    -------
    training : Training
        With an error instead of weights if the loss was never finite, with ``pruned`` if it was cut short.

    Notes
    -----
    One torch thread, always: the sums of a training with two threads round differently, and N trainings on
    N cores are faster than one training after the other on all of them.
    """
    clf, started, threads = clone(estimator), time.perf_counter(), torch.get_num_threads()
    record = {"params": _describe(estimator), "versions": versions()}
    if trial is not None:
        clf.set_params(callbacks=[*(clf.callbacks or []), ("prune", Prune(trial))])
    torch.set_num_threads(1)
    try:
        clf.fit(X, y, subjects=subjects)
    except Pruned:
        return Training(b"", {**record, "pruned": len(clf.history), "seconds": time.perf_counter() - started})
    except DivergedError as error:
        return Training(b"", {**record, "error": str(error), "seconds": time.perf_counter() - started})
    finally:
        torch.set_num_threads(threads)
    if not _is_complete(clf):
        raise KeyboardInterrupt  # skorch swallows it and returns a net that looks fitted
    return pack(clf, {**record, "seconds": time.perf_counter() - started})


def pack(clf, record):
    """Return a fitted estimator in the form in which it is kept.

    Parameters
    ----------
    clf : CensoredEEGClassifier
        Fitted.
    record : dict
        What is known beside the estimator.

    Returns
    -------
    training : Training
        Weights, and the record with scores and history.
    """
    record |= {"valid_score": clf.valid_score_, "valid_subject": _plain(clf.valid_subject_)}
    record |= {"best_epoch": clf.best_epoch_}
    columns = ["train_loss", "valid_loss", "valid_balanced_accuracy"]
    # what the censoring callback noted: the penalty and, where there is a critic, its accuracy
    columns += [name for name in clf.history[0] if name.startswith("subject_")]
    record["history"] = {name: [row[name] for row in clf.history] for name in columns}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "weights.safetensors")
        clf.save(path)
        return Training(path.read_bytes(), record)


class Memory:
    """A folder of finished trainings: ``<key>.safetensors`` with weights, ``<key>.json`` with the record.

    Parameters
    ----------
    folder : str or path-like
        Made when first written to.

    Notes
    -----
    Weights are written before the record, which carries their checksum, each under a temporary name that is
    then renamed. A record without matching weights counts as no training at all, so whatever a crash or a
    bad disk leaves behind is trained again.
    """

    def __init__(self, folder):
        self.folder = Path(folder)

    def read(self, key):
        """Return the record of a finished training, or None.

        Parameters
        ----------
        key : str
            From :func:`training_key`.

        Returns
        -------
        record : dict or None
            None if there is none or it is damaged.
        """
        try:
            record = json.loads(self._path(key, "json").read_bytes())
            weights = b"" if "error" in record else self._path(key, "safetensors").read_bytes()
            return record if record["sha256"] == hashlib.sha256(weights).hexdigest() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, key, training):
        """Keep a finished training.

        Parameters
        ----------
        key : str
            From :func:`training_key`.
        training : Training
            What was trained.

        Returns
        -------
        record : dict
            As :meth:`read` will return it.
        """
        record = {**training.record, "sha256": hashlib.sha256(training.weights).hexdigest()}
        if training.weights:
            write_atomically(self._path(key, "safetensors"), training.weights)
        write_atomically(self._path(key, "json"), json.dumps(record).encode())
        line = {"key": key, "finished": time.time(), "seconds": record["seconds"]}
        with clear_errors(self.folder), open(self.folder / "log.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        # What MOABB reads later must be what a resumed run would read.
        return json.loads(json.dumps(record))

    def load(self, key, **params):
        """Return the trained estimator.

        Parameters
        ----------
        key : str
            Of a finished training.
        **params
            Constructor arguments to change.

        Returns
        -------
        clf : CensoredEEGClassifier
            Ready to predict.
        """
        return CensoredEEGClassifier.load(self._path(key, "safetensors"), **params)

    def _path(self, key, ending):
        return self.folder / f"{key}.{ending}"


def _is_complete(clf):
    last = clf.history[-1] if clf.history else {}
    waited = clf.patience is not None and len(clf.history) - (clf.best_epoch_ or 0) >= clf.patience
    return "valid_loss" in last and (len(clf.history) >= clf.max_epochs or waited)


def _describe(estimator):
    params = estimator.get_params(deep=False)
    return {k: v for k, v in params.items() if isinstance(v, (str, int, float, bool, list, type(None)))}


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value
