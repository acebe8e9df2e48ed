"""Common base of the datasets: metadata, the default folder and the entry in the list of datasets."""

from abc import abstractmethod
from pathlib import Path

import mne
import numpy as np
from moabb.datasets.base import BaseDataset
from moabb.datasets.metadata import schema

#: MNE types of the channels that can be decoded.
MODALITIES = ("eeg", "ecog", "emg", "seeg")


class _BaseDataset(BaseDataset):
    """A MOABB dataset with metadata that can say whether its files are on this disk."""

    METADATA = None
    ACCESS = "your own files"  # how to get the data, for the list of datasets

    def __init__(
        self, subjects, class_names, code, interval, paradigm, modality="eeg", n_sessions=1, **selection
    ):
        self.class_names, self.modality = list(class_names), modality
        super().__init__(
            subjects=list(subjects),
            sessions_per_subject=n_sessions,
            events={name: number for number, name in enumerate(self.class_names, 1)},
            code=code,
            interval=list(interval),
            paradigm=paradigm,
            doi=self.METADATA and self.METADATA.documentation.doi,
            return_all_modalities={name: name == modality for name in MODALITIES},
            **selection,
        )

    @property
    def metadata(self):
        """Published facts about the dataset, or None."""
        return self.METADATA

    @property
    def _summary(self):
        """The dataset's columns in the list of datasets."""
        facts = self.METADATA
        ((modality, n_chans),) = facts.acquisition.channel_types.items()
        row = {"modality": modality, "trials": facts.data_structure.n_trials, "channels": n_chans}
        row |= {"licence": facts.documentation.license, "access": self.ACCESS}
        return row | {"on_disk": self.is_local()}

    @abstractmethod
    def is_local(self):
        """Return whether the data are available without a download."""

    @abstractmethod
    def _subject_files(self, subject, path=None, force_update=False):
        """Return the paths of one subject's files."""

    def data_path(self, subject, path=None, force_update=False, update_path=None, verbose=None):
        """Return the files of one subject; download, unpack or explain how to provide missing ones."""
        return [str(file) for file in self._subject_files(subject, path, force_update)]


class _TrialDataset(_BaseDataset):
    """A dataset of cut trials, which need no paradigm."""

    @abstractmethod
    def trials(self, subject):
        """Return one subject's trials, a list of (X, y)."""

    def arrays(self, subjects=None, dtype=np.float32):
        """Return all trials as plain arrays, with no MOABB paradigm in between.

        Parameters
        ----------
        subjects : list of int or None
            Which subjects; None means all.
        dtype : dtype
            Type of X.

        Returns
        -------
        X : array of shape (n_trials, n_chans, n_times)
            Trials in microvolts, neither filtered nor scaled.
        y : array of int of shape (n_trials,)
            Class numbers, in the order of ``class_names``.
        subjects : array of int of shape (n_trials,)
            Subject numbers.
        """
        subjects = self.subject_list if subjects is None else subjects
        blocks = [(X.astype(dtype), y, np.full(len(y), s)) for s in subjects for X, y in self.trials(s)]
        return tuple(np.concatenate(arrays) for arrays in zip(*blocks))


def make_metadata(paradigm, modality, n_chans, sfreq, class_names, n_subjects, n_trials, **documentation):
    """Return MOABB's metadata of a dataset."""
    events = {name: number for number, name in enumerate(class_names, 1)}
    return schema.DatasetMetadata(
        acquisition=schema.AcquisitionMetadata(sfreq, {modality: n_chans}),
        participants=schema.ParticipantMetadata(n_subjects),
        experiment=schema.ExperimentMetadata(paradigm, events=events, n_classes=len(events)),
        documentation=schema.DocumentationMetadata(**documentation),
        data_structure=schema.DataStructureMetadata(n_trials=n_trials),
    )


def find_folder(folder, name):
    """Return the user's folder, or the one in which MNE's settings expect the dataset; nothing is created."""
    default = Path(mne.get_config("MNE_DATA") or "~/mne_data", name)
    return Path(folder or mne.get_config(f"MNE_DATASETS_{name.upper()}_PATH") or default).expanduser()
