"""The interchange format: one ``subject_XX.npz`` per subject, for recordings without a public release.

===============  =========================================  ===================================================
key              content                                    default
===============  =========================================  ===================================================
``X``            trials x channels x samples, any real      (required)
                 number type
``y``            class numbers, indices of ``label_names``  (required, except for decoding)
``sfreq``        sampling rate in Hz                        (required)
``label_names``  class names                                none: ``y`` may hold any whole numbers or words
``ch_names``     channel names                              ch1, ch2, …
``ch_types``     MNE channel types: eeg, eog, emg, ecog …   eeg
``scale``        factor per channel: X * scale is in        ones
                 ``unit``
``unit``         V, mV, uV or a description                 V
``tmin``         time of the first sample after the event   0
                 in seconds
``session``      session of each trial                      one session
``run``          run of each trial                          one run
===============  =========================================  ===================================================

Further keys with single values are read and can be used to select subjects; other keys are ignored. A ``unit`` that
is no voltage (counts of an uncalibrated amplifier) is loaded as if it were microvolts: normalise such data.

Errors, with the file's name: rates outside 0.1 .. 100,000 Hz, windows more than 600 s from their event, class names
that are empty or longer than 100 characters, trials in which all channels are constant. Warnings: single channels
that are constant, class names that differ in case or spaces only, subjects with one trial.
"""

import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import mne
import numpy as np

from braindecode_censor.datasets import _check
from braindecode_censor.datasets._check import require
from braindecode_censor.datasets._npz import read_npz

_REQUIRED = ("X", "y", "sfreq")
_OPTIONAL = ("label_names", "ch_names", "ch_types", "scale", "unit", "tmin", "session", "run")
_UNITS = {"v": 1.0, "mv": 1e-3, "uv": 1e-6, "µv": 1e-6, "μv": 1e-6}
_CHANNEL_TYPES = ("eeg", "eog", "emg", "ecog", "seeg", "ecg", "misc")


@dataclass
class SubjectFile:
    """One subject's trials and their description."""

    path: Path
    y: np.ndarray
    label_names: list
    ch_names: list
    ch_types: list
    sfreq: float
    tmin: float
    n_times: int
    session: np.ndarray
    run: np.ndarray
    extra: dict = field(default_factory=dict)  # further single values of the file
    X: np.ndarray | None = None  # volts
    info: mne.Info | None = None


def save_subject(path, X, y, *, sfreq, label_names=None, ch_names=None, ch_types=None, **optional):
    """Write one subject in the interchange format.

    Parameters
    ----------
    path : str or Path
        File to write, called ``subject_XX.npz``. Its folder is created.
    X : array of shape (n_trials, n_chans, n_times)
        Trials, in volts unless ``unit`` or ``scale`` say otherwise.
    y : array of shape (n_trials,)
        Class numbers; without ``label_names`` any whole numbers or words.
    sfreq : float
        Sampling rate in Hz.
    label_names : sequence of str or None
        Class names; None uses the values of ``y``.
    ch_names : sequence of str or None
        Channel names; None uses ch1, ch2, …
    ch_types : str, sequence of str or None
        MNE channel types; a single one holds for all channels, None is eeg.
    **optional : dict
        Optional keys of the format.
    """
    ch_types = [ch_types] * np.shape(X)[1] if isinstance(ch_types, str) else ch_types
    optional |= dict(label_names=label_names, ch_names=ch_names, ch_types=ch_types)
    variables = dict(X=X, y=y, sfreq=sfreq) | {k: v for k, v in optional.items() if v is not None}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **{key: np.asarray(value) for key, value in variables.items()})


def read_subject(path, data=True, labels=True):
    """Read one subject, ``subject_XX.npz`` or MNE epochs ``*.fif``, and check all of it.

    Parameters
    ----------
    path : str or Path
        The file.
    data : bool
        Whether to read the trials themselves or only their description.
    labels : bool
        Whether the file must have classes. A file to be decoded need not; its class is then called "unknown".

    Returns
    -------
    SubjectFile
        The checked content.
    """
    path = Path(path)
    record = _read_fif(path, data) if path.suffix == ".fif" else _read_npz(path, data, labels)
    _check_record(record)
    return record


def _read_npz(path, data, labels):
    """Return an unchecked SubjectFile from an archive of arrays."""
    require(path.is_file(), f"{path} is no file; give one subject's .npz or -epo.fif file.")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} cannot be read (no archive): truncated, or not an .npz file.")
    shape, X, values = read_npz(path, "X", (*_REQUIRED, *_OPTIONAL), data)
    names = list(values) if shape is None else ["X", *values]
    required = [key for key in _REQUIRED if labels or key != "y"]
    missing = ", ".join(key for key in required if key not in names)
    present = ", ".join(names) or "nothing"
    require(not missing, f"{path} has no variable {missing}; needs {', '.join(required)}, has {present}.")
    require(len(shape) == 3, f"{path}: X has shape {shape}; expected (trials, channels, samples).")
    return _from_values(path, X, shape, _fill_in(values, shape))


def _fill_in(values, shape):
    """Return the variables of a file with the defaults of missing ones."""
    n_trials, n_chans, _ = shape
    if "y" not in values:
        values |= {"y": np.zeros(n_trials, int), "label_names": "unknown"}
    if "label_names" not in values and values["y"].dtype.kind in "iuU":
        names, values["y"] = np.unique(values["y"], return_inverse=True)
        values["label_names"] = names.astype(str)
    defaults = {"label_names": [], "ch_names": [f"ch{k}" for k in range(1, n_chans + 1)], "tmin": 0.0}
    defaults |= {"unit": "V", "scale": np.ones(n_chans)}
    defaults |= dict.fromkeys(("session", "run"), np.full(n_trials, "0"))
    values = defaults | values
    return {"ch_types": ["eeg"] * np.size(values["ch_names"])} | values


def _from_values(path, X, shape, values):
    """Return an unchecked SubjectFile from the arrays of an archive, X converted to volts."""
    lists = ("label_names", "ch_names", "ch_types", "session", "run")
    columns = {key: np.atleast_1d(values.pop(key)).astype(str) for key in lists}
    scale, unit = np.atleast_1d(values.pop("scale")), str(values.pop("unit"))
    record = SubjectFile(
        path=path,
        y=np.atleast_1d(values.pop("y")),
        sfreq=_check.check_number(values.pop("sfreq"), "sfreq", path),
        tmin=_check.check_number(values.pop("tmin"), "tmin", path),
        n_times=shape[2],
        extra={key: value.item() for key, value in values.items()} | {"unit": unit},
        **{key: column if key in ("session", "run") else column.tolist() for key, column in columns.items()},
    )
    n_trials, n_chans, _ = shape
    if scale.shape != (n_chans,) or scale.dtype.kind not in "iuf":
        raise ValueError(f"{path}: scale has shape {scale.shape}; expected one number per channel.")
    for key, n, axis in (("ch_names", n_chans, "channels"), ("y", n_trials, "trials")):
        n_entries = len(getattr(record, key))
        require(n_entries == n, f"{path}: {key} has {n_entries} entries, but X has {n} {axis}.")
    if X is not None:
        _check.check_samples(X, f"{path}: X", record.ch_names, ("trial", "channel", "sample"))
        record.X = X * (scale * _UNITS.get(unit.strip().lower(), 1e-6))[None, :, None]
    return record


def _read_fif(path, data):
    """Return an unchecked SubjectFile from MNE epochs; sessions and runs from their metadata, if any."""
    try:
        epochs = mne.read_epochs(path, preload=data, verbose="ERROR")
    except Exception as error:  # MNE raises many types of errors for a damaged file
        raise ValueError(f"{path} cannot be read as MNE epochs ({error}): truncated?") from error
    names = sorted(epochs.event_id, key=epochs.event_id.get)
    codes = np.array([epochs.event_id[name] for name in names])
    table = {} if epochs.metadata is None else epochs.metadata
    one = np.full(len(epochs), "0")
    record = SubjectFile(
        path=path,
        y=np.searchsorted(codes, epochs.events[:, 2]),
        label_names=names,
        ch_names=list(epochs.ch_names),
        ch_types=epochs.get_channel_types(),
        sfreq=float(epochs.info["sfreq"]),
        tmin=float(epochs.tmin),
        n_times=len(epochs.times),
        info=epochs.info,
        **{key: np.asarray(table[key], str) if key in table else one for key in ("session", "run")},
    )
    if data:
        record.X = epochs.get_data(copy=False)
        _check.check_samples(record.X, f"{path}: data", record.ch_names, ("trial", "channel", "sample"))
    return record


def _check_record(record):
    """Raise a ValueError that names the file, the variable and the expected values."""
    path, y, n_trials, n_classes = record.path, record.y, len(record.y), len(record.label_names)
    n_names, n_types = len(record.ch_names), len(record.ch_types)
    _check.check_class_names(record.label_names, path)
    _check.check_unique(record.ch_names, path, "ch_names")
    require(n_types == n_names, f"{path}: ch_types has {n_types} entries, ch_names {n_names}.")
    unknown = ", ".join(sorted(set(record.ch_types) - set(_CHANNEL_TYPES)))
    require(not unknown, f"{path}: ch_types holds {unknown}; expected {', '.join(_CHANNEL_TYPES)}.")
    if n_trials == 0 or record.n_times < 4:
        raise ValueError(f"{path}: X has {n_trials} trials of {record.n_times} samples; expected 1 of 4.")
    require(y.dtype.kind in "iu", f"{path}: y has dtype {y.dtype}; expected indices of label_names.")
    if y.min() < 0 or y.max() >= n_classes:
        raise ValueError(f"{path}: y ranges from {y.min()} to {y.max()}, there are {n_classes} classes.")
    _check.check_timing(record.sfreq, record.tmin, path)
    if record.X is not None:
        _check.check_variation(record.X, record.ch_names, path)
    for key in ("session", "run"):
        n_entries = len(getattr(record, key))
        require(n_entries == n_trials, f"{path}: {key} has {n_entries} entries, but X has {n_trials} trials.")
