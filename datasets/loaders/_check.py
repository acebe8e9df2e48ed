"""Checks of arguments and of file contents, shared by the loaders."""

import difflib
import warnings
from collections import Counter

import numpy as np

_RATES = (0.1, 1e5)  # Hz; no recording has a sampling rate beyond these
_MAX_OFFSET = 600.0  # seconds between an event and its window
_MAX_NAME_LENGTH = 100


def require(condition, message):
    """Raise a ValueError with the message unless the condition holds."""
    if not condition:
        raise ValueError(message)


def warn(message):
    """Warn at the line that called the caller's caller."""
    warnings.warn(message, UserWarning, stacklevel=4)


def check_name(name, choices, argument):
    """Return ``name`` if it is one of ``choices``, else raise a ValueError that lists them."""
    choices = list(choices)
    if name in choices:
        return name
    near = difflib.get_close_matches(str(name).lower(), [c.lower() for c in choices], n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{argument}={name!r} is unknown; choose one of {', '.join(choices)}.{hint}")


def check_unique(names, where, variable):
    """Raise if a name occurs twice."""
    repeated = ", ".join(sorted(name for name, count in Counter(map(str, names)).items() if count > 1)[:5])
    require(not repeated, f"{where}: {variable} holds {repeated} more than once; each must be unique.")


def check_samples(data, where, ch_names, axis_names):
    """Raise with the first bad sample and its channel if samples are not real and finite numbers."""
    require(data.dtype.kind in "iuf", f"{where} has dtype {data.dtype}; expected real numbers.")
    if data.dtype.kind == "f" and not np.isfinite(data.sum()):  # a single pass over valid data
        bad = np.argwhere(~np.isfinite(data))
        if len(bad):
            first = dict(zip(axis_names, bad[0].tolist()))
            first["channel"] = ch_names[first["channel"]]
            position = ", ".join(f"{name} {value}" for name, value in first.items())
            problem = f"{len(bad)} samples that are NaN or infinite, the first at {position}"
            raise ValueError(f"{where} holds {problem}; repair or drop these trials.")


def check_number(value, name, path):
    """Return the one number that a variable of a file must hold."""
    value = np.asarray(value)
    if value.size != 1 or value.dtype.kind not in "iuf":
        raise ValueError(f"{path}: {name} has shape {value.shape}, type {value.dtype}; expected one number.")
    return float(value.item())


def check_timing(sfreq, tmin, path):
    """Raise unless sampling rate and window are those of a recording."""
    low, high = _RATES
    if not low <= sfreq <= high:
        raise ValueError(f"{path}: sfreq={sfreq} Hz; expected a rate between {low} and {high:.0f} Hz.")
    if not abs(tmin) <= _MAX_OFFSET:
        raise ValueError(f"{path}: tmin={tmin} s; expected at most {_MAX_OFFSET:.0f} s from the event.")


def check_class_names(names, path):
    """Refuse names that MNE or a table cannot hold; warn of names that differ in case or spaces only."""
    require(len(set(names)) == len(names), f"{path}: label_names holds the same name twice: {names}.")
    alike = {}
    for name in names:
        if name.lower().startswith(("bad", "edge")):
            raise ValueError(f"{path}: label_names contains {name!r}; MNE rejects such epochs: rename it.")
        if not name.strip() or len(name) > _MAX_NAME_LENGTH:
            raise ValueError(f"{path}: label_names: {name[:9]!r} must have 1 to {_MAX_NAME_LENGTH} letters.")
        alike.setdefault(name.strip().casefold(), []).append(name)
    for group in alike.values():
        if len(group) > 1:
            names = ", ".join(map(repr, group))
            warn(f"{path}: the classes {names} differ in case or spaces only, and stay different classes.")


def check_variation(X, ch_names, path):
    """Refuse trials in which nothing varies; warn of channels that are constant in all trials."""
    constant = (X[:, :, :1] == X).all(axis=(0, 2))
    require(not constant.all(), f"{path}: all channels are constant in all trials, nothing to decode.")
    if constant.any():
        names = ", ".join([ch_names[k] for k in np.flatnonzero(constant)][:8])
        warn(f"{path}: the channels {names} are constant in all trials and carry no information.")
