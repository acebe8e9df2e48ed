"""Files of people, one ``subject_XX.npz`` or ``subject_XX-epo.fif`` each, as arrays for ``fit`` and ``predict``."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from braindecode_censor.datasets.epochs_folder import find_subjects
from braindecode_censor.datasets.interchange import read_subject
from braindecode_censor.trials.dataset import SIGNALS

__all__ = ["People", "read_people", "read_person"]

_MICROVOLTS = 1e6


@dataclass
class People:
    """Trials of several people."""

    X: np.ndarray
    y: np.ndarray
    subjects: np.ndarray
    ch_names: list
    sfreq: float


def read_people(folder):
    """Read a folder with one file per person."""
    records = {number: read_subject(path) for number, path in find_subjects(Path(folder)).items()}
    first = next(iter(records.values()))
    kinds = Counter(kind for kind in first.ch_types if kind in SIGNALS)
    if not kinds:
        raise ValueError(
            f"{first.path}: ch_types has none of {', '.join(SIGNALS)}; there is nothing to decode."
        )
    kind = kinds.most_common(1)[0][0]
    names = [name for name, type in zip(first.ch_names, first.ch_types) if type == kind]
    names = [name for name in names if all(name in record.ch_names for record in records.values())]
    if not names:
        raise ValueError(f"{folder}: no {kind} channel is in all files.")
    for record in records.values():
        if (record.sfreq, record.n_times) != (first.sfreq, first.n_times):
            raise ValueError(
                f"{record.path} has {record.n_times} samples at {record.sfreq:g} Hz, {first.path} has "
                f"{first.n_times} at {first.sfreq:g}: cut and resample them alike."
            )
    return People(
        np.concatenate([_signals(record, names) for record in records.values()]),
        np.concatenate([np.asarray(record.label_names)[record.y] for record in records.values()]),
        np.concatenate([np.full(len(record.y), number) for number, record in records.items()]),
        names,
        float(first.sfreq),
    )


def read_person(path, format):
    """Read the file of one person in the order of a decoder's channels."""
    record = read_subject(Path(path), labels=False)
    names = format.ch_names or record.ch_names
    missing = [name for name in names if name not in record.ch_names]
    if missing:
        raise ValueError(
            f"{path} lacks {len(missing)} of the decoder's {format.n_chans} channels: {', '.join(missing[:8])}."
        )
    if format.sfreq is not None and abs(record.sfreq - format.sfreq) > 1e-6 * format.sfreq:
        raise ValueError(
            f"{path} is sampled at {record.sfreq:g} Hz, the decoder at {format.sfreq:g}: resample it."
        )
    return _signals(record, names), np.asarray(record.label_names)[record.y]


def _signals(record, names):
    places = [record.ch_names.index(name) for name in names]
    return (record.X[:, places] * _MICROVOLTS).astype(np.float32)
