"""The name of a training: a digest of all that decides about its numbers, made here and nowhere else."""

import hashlib
from functools import cache
from importlib.metadata import version

import numpy as np

from braindecode_censor._version import __version__
from braindecode_censor.trials.splits import validation_subject

__all__ = ["subject_digests", "training_key", "versions"]

_UNIMPORTANT = {
    "verbose",
    "valid_subject",
    "all_subjects",
}  # the first changes nothing, the others are resolved


def versions():
    """Return the versions that decide about the numbers."""
    return {"braindecode-censor": __version__, **_versions_of_others()}


@cache  # reading them takes longer than all the rest of a key
def _versions_of_others():
    return {name: version(name) for name in ("torch", "braindecode", "skorch", "moabb", "numpy")}


def subject_digests(X, y, subjects):
    """Return a digest of every subject's trials."""
    found, y = {}, np.asarray(y)
    for subject in np.unique(subjects):
        mine = np.flatnonzero(subjects == subject)
        digest = hashlib.sha256(repr((X.shape[1:], X.dtype.str)).encode())
        digest.update(np.ascontiguousarray(X[mine]))
        digest.update(repr(y[mine].tolist()).encode())
        found[as_plain(subject)] = digest.hexdigest()
    return found


def training_key(estimator, subjects, digests):
    """Return the name under which a training is kept."""
    params = {k: v for k, v in estimator.get_params(deep=False).items() if k not in _UNIMPORTANT}
    valid = estimator.valid_subject
    if isinstance(valid, str) and valid == "rotate":
        valid = validation_subject(subjects, estimator.all_subjects)
    subjects = np.asarray(subjects)
    order = subjects.tolist()
    if subjects.dtype == object:  # whose elements may be numpy's; of other types tolist makes plain ones
        order = [as_plain(subject) for subject in order]
    data = {subject: digests[subject] for subject in sorted(set(order), key=str)}
    parts = (type(estimator).__name__, sorted(params.items()), as_plain(valid), versions(), order, data)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def as_plain(value):
    """Return a label as Python has it, without numpy's type."""
    return value.item() if isinstance(value, np.generic) else value
