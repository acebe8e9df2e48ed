"""Doing one training and packing what is worth keeping of it."""

import tempfile
import time
import warnings
from pathlib import Path

import torch
from sklearn.base import clone

from braindecode_censor.storage.keys import as_plain, versions
from braindecode_censor.storage.trainings import Training
from braindecode_censor.training.rules import DivergedError, Prune, Pruned

__all__ = ["describe", "pack", "train"]


def train(estimator, X, y, subjects, trial=None, unseen=None):
    """Train a copy of an estimator and return what is worth keeping.

    Notes
    -----
    One torch thread, always: the sums of a training with two threads round differently, and N trainings on
    N cores are faster than one training after the other on all of them.
    """
    clf, started, threads = clone(estimator), time.perf_counter(), torch.get_num_threads()
    record = {"params": describe(estimator), "versions": versions()}
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
    if not clf.complete_:
        raise KeyboardInterrupt  # skorch swallows it and returns a net that looks fitted
    return pack(clf, {**record, "seconds": time.perf_counter() - started}, unseen)


def pack(clf, record, unseen=None):
    """Return a fitted estimator in the form in which it is kept."""
    record |= {"valid_score": clf.valid_score_, "valid_subject": as_plain(clf.valid_subject_)}
    record |= {"best_epoch": clf.best_epoch_}
    # losses and scores, and what the censoring callback noted: the penalty and, where there is a critic, its accuracy
    wanted = ("train_loss", "valid_loss", "valid_balanced_accuracy")
    columns = [name for name in clf.history[0] if name in wanted or name.startswith("subject_")]
    record["history"] = {name: [row[name] for row in clf.history] for name in columns}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "weights.safetensors")
        clf.save(path)
        return Training(path.read_bytes(), record, _decode(clf, unseen))


def _decode(clf, unseen):
    if unseen is None or not len(unseen):
        return None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no trials of the new person")
        return {"probabilities": clf.predict_proba(unseen)}


def describe(estimator):
    """Return the arguments of an estimator that JSON can hold.

    Parameters
    ----------
    estimator : CensoredEEGClassifier
        Fitted or not.

    Returns
    -------
    params : dict
        Plain strings, numbers and lists.
    """
    params = estimator.get_params(deep=False)
    return {k: v for k, v in params.items() if isinstance(v, (str, int, float, bool, list, type(None)))}
