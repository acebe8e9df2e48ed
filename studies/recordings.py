"""Recordings of the studies: folders of ``subject_XX.npz``, as ``docs/datasets.md`` describes them."""

from pathlib import Path

import numpy as np

from braindecode_censor.datasets import EpochsFolder, default_paradigm
from braindecode_censor.run.training import TrialData

__all__ = ["find_recordings", "number_subjects", "open_dataset", "read_recording"]

#: Recording -> options of its dataset.
OPTIONS = {"emg_myo": {"where": {"subset": "PreTrainingDataset"}}}


def find_recordings(folders):
    """Return the folders of recordings among some folders and in them."""
    paths = [path for folder in folders for path in (Path(folder), *sorted(Path(folder).glob("*/")))]
    recordings = [path for path in paths if any(path.glob("subject_*.npz"))]
    if not recordings:
        raise ValueError(f"data={list(map(str, folders))} has no folder with files subject_XX.npz.")
    return list(dict.fromkeys(recordings))


def open_dataset(folder):
    """Return the dataset of a folder."""
    return EpochsFolder(folder, **OPTIONS.get(folder.name, {}))


def read_recording(folder, **cut):
    """Return the trials of a recording, with subjects from 0, and its sampling rate."""
    dataset = open_dataset(folder)
    paradigm = default_paradigm(dataset, **cut)
    X, y, metadata = paradigm.get_data(dataset)
    return number_subjects(X, y, metadata["subject"].to_numpy()), sampling_rate(dataset, paradigm)


def sampling_rate(dataset, paradigm):
    """Return the sampling rate of the trials that a paradigm cuts."""
    if paradigm.resample:
        return float(paradigm.resample)
    subject = dataset.subject_list[0]
    session = next(iter(dataset.get_data([subject])[subject].values()))
    return float(next(iter(session.values())).info["sfreq"])


def number_subjects(X, y, subjects):
    """Return trials whose classes and subjects are numbers from 0."""
    y, subjects = (np.unique(labels, return_inverse=True)[1] for labels in (y, subjects))
    return TrialData(np.asarray(X, np.float32), y, subjects)
