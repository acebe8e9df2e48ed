"""The interchange format: one ``subject_XX.npz`` per subject, for recordings without a public release.

===============  =========================================  ===================================================
key              what                                       default
===============  =========================================  ===================================================
``X``            trials x channels x samples, any real      (required)
                 number type
``y``            class numbers, indices of ``label_names``  (required, but for decoding)
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

Further keys that are single values are kept and can be used to select subjects; others are not read. A ``unit`` that
is no voltage (counts of an uncalibrated amplifier) is loaded as if it were microvolts: normalise such data.

Refused, with the file's name: rates outside 0.1 .. 100,000 Hz, windows more than 600 s from their event, class names
that are empty or longer than 100 characters, trials in which all channels are constant. Warned of: single channels
that are constant, class names that differ in case or spaces only, subjects with one trial.
"""

import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import mne
import numpy as np

from braindecode_censor.datasets._check import check_samples, check_unique
from braindecode_censor.datasets._npz import read_npz
from braindecode_censor.datasets._plausible import (
    check_class_names,
    check_number,
    check_timing,
    check_variation,
)
from braindecode_censor.datasets._raw import check_label_names

REQUIRED = ("X", "y", "sfreq")
OPTIONAL = ("label_names", "ch_names", "ch_types", "scale", "unit", "tmin", "session", "run")
_UNITS = {"v": 1.0, "mv": 1e-3, "uv": 1e-6, "µv": 1e-6, "μv": 1e-6}
_CHANNEL_TYPES = ("eeg", "eog", "emg", "ecog", "seeg", "ecg", "misc")


@dataclass
class SubjectFile:
    """One subject's trials and what is known about them."""

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
    extra: dict = field(default_factory=dict)
    X: np.ndarray | None = None
    info: mne.Info | None = None


def save_subject(path, X, y, *, label_names, sfreq, ch_names, ch_types, **more):
    """Write one subject in the interchange format.

    Parameters
    ----------
    path : str or Path
        File to write, called ``subject_XX.npz``.
    X : array of shape (n_trials, n_chans, n_times)
        Trials, in volts unless ``unit`` or ``scale`` say otherwise.
    y : array of int of shape (n_trials,)
        Class numbers.
    label_names : sequence of str
        Class names.
    sfreq : float
        Sampling rate in Hz.
    ch_names, ch_types : sequence of str
        Channel names and MNE types.
    **more : dict
        Optional keys of the format.
    """
    ch_types = [ch_types] * len(ch_names) if isinstance(ch_types, str) else ch_types
    record = dict(
        X=X, y=y, label_names=label_names, sfreq=sfreq, ch_names=ch_names, ch_types=ch_types, **more
    )
    np.savez_compressed(path, **{key: np.asarray(value) for key, value in record.items()})


def read_subject(path, data=True, labels=True):
    """Read one subject, ``subject_XX.npz`` or MNE epochs ``*.fif``, and check all of it.

    Parameters
    ----------
    path : str or Path
        The file.
    data : bool
        Whether to read the trials themselves or only what describes them.
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
    if not path.is_file():
        raise ValueError(f"{path} is no file; give one subject's .npz or -epo.fif file.")
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path} cannot be read (no archive): truncated, or not an .npz file. Copy it again."
        )
    shape, X, values = read_npz(path, "X", (*REQUIRED, *OPTIONAL), data)
    found = ["X", *values] if shape is not None else list(values)
    required = [key for key in REQUIRED if labels or key != "y"]
    missing = [key for key in required if key not in found]
    if missing:
        raise ValueError(
            f"{path} has no variable {', '.join(missing)}; expected {', '.join(required)}; "
            f"found {', '.join(found) or 'nothing'}."
        )
    if len(shape) != 3:
        raise ValueError(f"{path}: X has shape {shape}; expected (trials, channels, samples).")
    _fill_in(values, shape)
    return _from_values(path, X, shape, values)


def _fill_in(values, shape):
    """Put in what a file may leave out."""
    if "y" not in values:
        values.update(y=np.zeros(shape[0], int), label_names="unknown")
    if "label_names" not in values and values["y"].dtype.kind in "iuU":
        names, values["y"] = np.unique(values["y"], return_inverse=True)
        values["label_names"] = names.astype(str)
    values.setdefault("label_names", [])  # other types of y get their message later
    values.setdefault("ch_names", [f"ch{k}" for k in range(1, shape[1] + 1)])
    values.setdefault("ch_types", ["eeg"] * len(np.atleast_1d(values["ch_names"])))


def _from_values(path, X, shape, values):
    """Return an unchecked SubjectFile from the arrays of an archive, X converted to volts."""
    names = {
        key: [str(v) for v in np.atleast_1d(values.pop(key))]
        for key in ("label_names", "ch_names", "ch_types")
    }
    scale = np.atleast_1d(values.pop("scale", np.ones(shape[1])))
    unit = str(values.pop("unit", "V"))
    per_trial = {
        key: np.atleast_1d(values.pop(key, np.full(shape[0], "0"))).astype(str) for key in ("session", "run")
    }
    record = SubjectFile(
        path=path,
        y=np.atleast_1d(values.pop("y")),
        sfreq=check_number(values.pop("sfreq"), "sfreq", path),
        tmin=check_number(values.pop("tmin", 0.0), "tmin", path),
        n_times=shape[2],
        extra={key: value.item() for key, value in values.items() if value.ndim == 0} | {"unit": unit},
        **names,
        **per_trial,
    )
    if scale.shape != (shape[1],) or scale.dtype.kind not in "iuf":
        raise ValueError(
            f"{path}: scale has shape {scale.shape}; expected one number per channel, ({shape[1]},)."
        )
    if len(record.ch_names) != shape[1]:
        raise ValueError(
            f"{path}: ch_names has {len(record.ch_names)} entries, but X has {shape[1]} channels."
        )
    if len(record.y) != shape[0]:
        raise ValueError(f"{path}: y has {len(record.y)} entries, but X has {shape[0]} trials.")
    if X is not None:
        check_samples(X, f"{path}: X", record.ch_names, ("trial", "channel", "sample"))
        record.X = X * (scale * _UNITS.get(unit.strip().lower(), 1e-6))[None, :, None]
    return record


def _read_fif(path, data):
    """Return an unchecked SubjectFile from MNE epochs; sessions and runs from their metadata, if any."""
    try:
        epochs = mne.read_epochs(path, preload=data, verbose="ERROR")
    except Exception as error:  # MNE raises many kinds for a broken file
        raise ValueError(
            f"{path} cannot be read as MNE epochs ({error}): truncated? Copy it again."
        ) from error
    names = sorted(epochs.event_id, key=epochs.event_id.get)
    codes = np.array([epochs.event_id[name] for name in names])
    table = epochs.metadata
    column = {
        key: np.full(len(epochs), "0")
        if table is None or key not in table
        else table[key].astype(str).to_numpy()
        for key in ("session", "run")
    }
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
        **column,
    )
    if data:
        record.X = epochs.get_data(copy=False)
        check_samples(record.X, f"{path}: data", record.ch_names, ("trial", "channel", "sample"))
    return record


def _check_record(record):
    """Raise a ValueError that names the file, the variable and what was expected."""
    path, n_trials = record.path, len(record.y)
    check_label_names(record.label_names, path)
    check_class_names(record.label_names, path)
    check_unique(record.ch_names, path, "ch_names")
    if len(record.ch_types) != len(record.ch_names):
        raise ValueError(
            f"{path}: ch_types has {len(record.ch_types)} entries, ch_names {len(record.ch_names)}; they "
            "must agree."
        )
    unknown = sorted(set(record.ch_types) - set(_CHANNEL_TYPES))
    if unknown:
        raise ValueError(
            f"{path}: ch_types holds {', '.join(unknown)}; expected {', '.join(_CHANNEL_TYPES)}."
        )
    if n_trials == 0 or record.n_times < 4:
        raise ValueError(
            f"{path}: X has {n_trials} trials of {record.n_times} samples; expected at least 1 of 4."
        )
    if record.y.dtype.kind not in "iu":
        raise ValueError(
            f"{path}: y has dtype {record.y.dtype}; expected integers, the indices of label_names."
        )
    n_classes = len(record.label_names)
    if record.y.min() < 0 or record.y.max() >= n_classes:
        raise ValueError(
            f"{path}: y ranges from {record.y.min()} to {record.y.max()}, but there are {n_classes} "
            "label_names; "
            f"expected 0 to {n_classes - 1}."
        )
    check_timing(record.sfreq, record.tmin, path)
    if record.X is not None:
        check_variation(record.X, record.ch_names, path)
    for key in ("session", "run"):
        if len(getattr(record, key)) != n_trials:
            raise ValueError(
                f"{path}: {key} has {len(getattr(record, key))} entries, but there are {n_trials} trials."
            )


def subject_number(path):
    """Return the number in a file name such as ``subject_07.npz`` or ``subject_07-epo.fif``, or None."""
    match = re.fullmatch(r"(?:subject|sub)[_-]?(\d+)(?:[_-]epo)?", Path(path).stem)
    return int(match[1]) if match else None
