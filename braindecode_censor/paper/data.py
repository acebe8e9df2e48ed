"""The trials of all people of a dataset, as MOABB hands them out."""

import os
import weakref
from hashlib import sha256
from pathlib import Path

import moabb.paradigms
from sklearn.preprocessing import LabelEncoder

import braindecode_censor.datasets
from braindecode_censor._check import check_choice
from braindecode_censor.datasets import (
    PARADIGMS,
    EpochsFolder,
    default_paradigm,
    get_dataset,
    with_paper_scores,
)
from braindecode_censor.paper.trial_file import read_trials
from braindecode_censor.storage.keys import subject_digests
from braindecode_censor.trials.splits import validation_subject

__all__ = ["Recording", "digest_of_data", "make_dataset", "make_paradigm", "sampling_rate"]

_OF_MOABB = ("LeftRightImagery", "MotorImagery", "FilterBankLeftRightImagery", "P300", "SSVEP", "CVEP")


class Recording:
    """All trials of a dataset as MOABB hands them out, with a digest per subject."""

    def __init__(self, dataset, paradigm, folder=None):
        X, y, metadata, file = read_trials(dataset, paradigm, folder)
        if file is not None:
            weakref.finalize(self, file.close)  # at the end of the process at the latest
        self.trials = X, y, metadata
        self.X, self.subjects = X, metadata["subject"].to_numpy()
        encoder = LabelEncoder().fit(y)
        self.y = encoder.transform(y)  # as MOABB's evaluation does
        self.classes = [str(name) for name in encoder.classes_]
        self.all_subjects = [s for s in dataset.subject_list if s in set(self.subjects.tolist())]
        if len(self.all_subjects) < 4:
            raise ValueError(
                f"dataset {dataset.code} has {len(self.all_subjects)} subjects with trials, but one to test, one to "
                "validate and two to censor are needed: use a dataset of at least 4."
            )
        self.digests = subject_digests(self.X, self.y, self.subjects)

    def successor(self, test_subject):
        """Return who validates when a subject tests."""
        others = self.subjects[self.subjects != test_subject]
        return validation_subject(others, self.all_subjects).item()


def make_dataset(dataset, options):
    """Return a dataset by name or folder."""
    if not isinstance(dataset, (str, os.PathLike)):
        return dataset
    if Path(dataset).is_dir():
        return EpochsFolder(dataset, **options)
    if isinstance(dataset, os.PathLike) or os.sep in dataset:
        raise ValueError(
            f"dataset={str(dataset)!r} is no folder: give a folder of epochs or a name of `autotransfer datasets`."
        )
    try:
        return get_dataset(dataset, **options)
    except ValueError as error:
        if Path(dataset).exists() or dataset in braindecode_censor.datasets.DATASETS:
            raise
        raise ValueError(f"{error} There is no folder of that name either.") from None


def make_paradigm(paradigm, dataset):
    """Return a paradigm that scores as the paper does."""
    if paradigm is None:
        return default_paradigm(dataset)
    if not isinstance(paradigm, str):
        return with_paper_scores(paradigm)
    known = {
        kind.__name__: kind for kind in (*PARADIGMS.values(), braindecode_censor.datasets.EpochsParadigm)
    }
    known = {name: getattr(moabb.paradigms, name) for name in _OF_MOABB} | known
    return with_paper_scores(known[check_choice("paradigm", paradigm, known)]())


def digest_of_data(recording):
    """Return a digest of all trials of all subjects."""
    return sha256(repr(sorted(recording.digests.items())).encode()).hexdigest()


def sampling_rate(dataset, paradigm):
    """Return the sampling rate of the trials that a paradigm cuts."""
    if paradigm.resample:
        return float(paradigm.resample)
    subject = dataset.subject_list[0]
    session = next(iter(dataset.get_data([subject])[subject].values()))
    return float(next(iter(session.values())).info["sfreq"])
