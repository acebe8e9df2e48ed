"""A fleet that leaves behind what a sequence of trainings would: records and weights, ready to be kept."""

from contextlib import contextmanager

import numpy as np
import torch

from braindecode_censor.fleet.engine import train_fleet
from braindecode_censor.run.train import describe, pack
from braindecode_censor.storage.keys import versions
from braindecode_censor.storage.trainings import Training

__all__ = ["train_all", "train_and_write"]


def train_all(tasks, X, y, subjects, folder=None, threads=1, **options):
    """Train estimators as a fleet and return each in the form in which it is kept."""
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
    """Train estimators as a fleet and write each down at once: what one of several processes does."""
    return [(key, cache.write(key, done)) for key, done in train_all(tasks, X, y, subjects, **options)]


@contextmanager
def _threads(n):
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
