"""Versions and checksums of trials, which decide about the numbers of a training besides its arguments."""

from functools import cache
from importlib.metadata import version

import numpy as np

from braindecode_censor._version import __version__
from braindecode_censor.storage.seal import digest

__all__ = ["as_plain", "subject_digests", "versions"]


def versions():
    """Return the versions that decide about the numbers."""
    return {"braindecode-censor": __version__, **_library_versions()}


@cache  # Reading them takes longer than the rest of a key.
def _library_versions():
    return {name: version(name) for name in ("torch", "braindecode", "skorch", "moabb", "numpy")}


def subject_digests(X, y, subjects):
    """Return subject -> checksum of the subject's trials."""
    digests, y = {}, np.asarray(y)
    form = repr((X.shape[1:], X.dtype.str)).encode()
    for subject in np.unique(subjects):
        rows = np.flatnonzero(subjects == subject)
        labels = repr(y[rows].tolist()).encode()
        digests[as_plain(subject)] = digest(form, np.ascontiguousarray(X[rows]), labels)
    return digests


def as_plain(value):
    """Return a label as Python has it, without NumPy's type."""
    return value.item() if isinstance(value, np.generic) else value
