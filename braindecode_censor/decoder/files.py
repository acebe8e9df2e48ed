"""Files with one subject each, ``subject_XX.npz`` or ``subject_XX-epo.fif``, as arrays for ``fit`` and ``predict``."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from braindecode_censor.datasets.epochs_folder import common_channels, find_subjects, modality_of
from braindecode_censor.datasets.interchange import read_subject
from braindecode_censor.decoder.input import match_channels

__all__ = ["SubjectFiles", "read_file", "read_folder"]


@dataclass
class SubjectFiles:
    """Trials of several subjects."""

    X: np.ndarray
    y: np.ndarray
    subjects: np.ndarray
    ch_names: list
    sfreq: float


def read_folder(folder):
    """Return the trials of a folder with one file per subject."""
    records = {number: read_subject(path) for number, path in find_subjects(Path(folder)).items()}
    first = next(iter(records.values()))
    names = common_channels(records, modality_of(first), "common")
    for record in records.values():
        if (record.sfreq, record.n_times) != (first.sfreq, first.n_times):
            raise ValueError(
                f"{record.path} has {record.n_times} samples at {record.sfreq:g} Hz, {first.path} has "
                f"{first.n_times} at {first.sfreq:g}: cut and resample them alike."
            )
    return SubjectFiles(
        np.concatenate([_in_microvolts(record, names) for record in records.values()]),
        np.concatenate([np.asarray(record.label_names)[record.y] for record in records.values()]),
        np.concatenate([np.full(len(record.y), number) for number, record in records.items()]),
        names,
        float(first.sfreq),
    )


def read_file(path, input_format):
    """Return the trials and labels of one subject's file, channels in the order of a decoder's."""
    record = read_subject(Path(path), labels=False)
    signals = _in_microvolts(record, record.ch_names)
    signals = match_channels(path, signals, record.ch_names, record.sfreq, input_format)
    return signals, np.asarray(record.label_names)[record.y]


def _in_microvolts(record, names):
    channels = [record.ch_names.index(name) for name in names]
    return (record.X[:, channels] * 1e6).astype(np.float32)
