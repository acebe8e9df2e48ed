"""The trials of a dataset as MOABB returns them, and datasets and paradigms by name."""

import inspect
import os
from functools import cached_property
from pathlib import Path

import moabb.paradigms
from moabb.paradigms.base import BaseParadigm
from sklearn.preprocessing import LabelEncoder

from braindecode_censor._check import check_choice, suggest
from braindecode_censor.datasets import (
    DATASETS,
    PARADIGMS,
    EpochsFolder,
    EpochsParadigm,
    default_paradigm,
    get_dataset,
    with_paper_scores,
)
from braindecode_censor.paper.trial_file import read_trials
from braindecode_censor.run.training import TrialData
from braindecode_censor.storage.seal import digest
from braindecode_censor.trials.splits import validation_subject

__all__ = ["ExperimentData", "make_dataset", "make_paradigm"]


class ExperimentData(TrialData):
    """All trials of a dataset as MOABB returns them."""

    def __init__(self, dataset, paradigm, folder=None):
        X, self.labels, self.metadata, self._file = read_trials(dataset, paradigm, folder)
        encoder = LabelEncoder().fit(self.labels)  # as MOABB's evaluation does
        super().__init__(X, encoder.transform(self.labels), self.metadata["subject"].to_numpy())
        self.classes = [str(name) for name in encoder.classes_]
        self.all_subjects = [s for s in dataset.subject_list if s in set(self.subjects.tolist())]
        if len(self.all_subjects) < 4:
            raise ValueError(
                f"dataset {dataset.code} has {len(self.all_subjects)} subjects with trials, but one to test, one to "
                "validate and two to censor are needed: use a dataset of at least 4."
            )

    def __reduce__(self):
        return TrialData, (self.X, self.y, self.subjects)  # Workers need no more.

    @cached_property
    def digest(self):
        """The checksum of all trials."""
        return digest(repr(sorted(self.digests.items())).encode())

    def successor(self, test_subject):
        """Return the subject that validates when another one tests."""
        training_subjects = self.subjects[self.subjects != test_subject]
        return validation_subject(training_subjects, self.all_subjects).item()


def make_dataset(dataset, options):
    """Return a dataset by name or folder."""
    if not isinstance(dataset, (str, os.PathLike)):
        return dataset
    if Path(dataset).is_dir():
        return EpochsFolder(dataset, **options)
    if dataset not in DATASETS:
        raise ValueError(
            f"dataset={str(dataset)!r} is neither a folder nor a name of `autotransfer datasets`."
            f"{suggest(dataset, DATASETS)}"
        )
    return get_dataset(dataset, **options)


def make_paradigm(paradigm, dataset):
    """Return a paradigm that scores as the paper does."""
    if paradigm is None:
        return default_paradigm(dataset)
    if not isinstance(paradigm, str):
        return with_paper_scores(paradigm)
    classes = [*filter(inspect.isclass, vars(moabb.paradigms).values()), *PARADIGMS.values(), EpochsParadigm]
    paradigms = {cls.__name__: cls for cls in classes if issubclass(cls, BaseParadigm)}
    return with_paper_scores(paradigms[check_choice("paradigm", paradigm, paradigms)]())
