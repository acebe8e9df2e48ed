"""A fleet that leaves behind what a sequence of trainings would: records and weights, ready to be kept."""

from contextlib import contextmanager

import numpy as np
import torch

from braindecode_censor.fleet.engine import train_fleet
from braindecode_censor.storage.keys import versions
from braindecode_censor.storage.train import describe, pack
from braindecode_censor.storage.trainings import Training

__all__ = ["train_all", "train_and_write"]


def train_all(tasks, X, y, subjects, folder=None, threads=1, **options):
    """Train estimators as a fleet and return each in the form in which it is kept.

    Parameters
    ----------
    tasks : list of (str, CensoredEEGClassifier, ndarray)
        Key of the training, estimator, and positions of the trials it may see.
    X : ndarray of shape (n_trials, n_chans, n_times)
        All trials.
    y, subjects : ndarray of shape (n_trials,)
        Class and subject of every trial.
    folder : str, path-like or None
        Where unfinished groups are saved.
    threads : int
        Threads of torch.
    **options
        Options of :func:`~braindecode_censor.fleet.train_fleet`.

    Yields
    ------
    key, training : str, Training
        As soon as each is finished.
    """
    members = train_fleet(tasks, X, y, subjects, folder=folder, **options)
    while True:
        with _threads(threads):  # not while the caller has the floor
            member = next(members, None)
        if member is None:
            return
        record = {"params": describe(member.clf), "versions": versions(), "seconds": member.seconds}
        record["engine"] = "fleet" if member.alone is None else "sequential"
        if member.error is not None:
            yield member.key, Training(b"", {**record, "error": member.error})
        else:
            unseen = X[np.setdiff1d(np.arange(len(y)), member.seen)]
            yield member.key, pack(member.clf, record, unseen)


def train_and_write(tasks, X, y, subjects, cache, **options):
    """Train estimators as a fleet and write each down at once: what one of several processes does.

    Parameters
    ----------
    tasks : list of (str, CensoredEEGClassifier, ndarray)
        As for :func:`train_all`.
    X, y, subjects : ndarray
        Trials, classes and subjects.
    cache : TrainingCache
        Where to.
    **options
        Options of :func:`train_all`.

    Returns
    -------
    records : list of (str, dict)
        Keys and records.
    """
    return [(key, cache.write(key, done)) for key, done in train_all(tasks, X, y, subjects, **options)]


@contextmanager
def _threads(n):
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
