"""The trials of all people of a data set, as MOABB hands them out."""

import os
from hashlib import sha256
from pathlib import Path

from sklearn.preprocessing import LabelEncoder

from braindecode_censor.datasets import EpochsFolder, get_dataset
from braindecode_censor.storage.trainings import fingerprints
from braindecode_censor.trials.splits import validation_subject

__all__ = ["Recording", "digest_of_data", "make_dataset"]


class Recording:
    """All trials of a dataset as MOABB hands them out, with a digest per subject.

    Parameters
    ----------
    dataset : moabb.datasets.base.BaseDataset
        The dataset.
    paradigm : moabb.paradigms.base.BaseParadigm
        How its trials are cut.
    """

    def __init__(self, dataset, paradigm):
        X, y, metadata = paradigm.get_data(dataset)
        self.X, self.subjects = X, metadata["subject"].to_numpy()
        self.y = LabelEncoder().fit_transform(y)  # as MOABB's evaluation does
        self.roster = [s for s in dataset.subject_list if s in set(self.subjects.tolist())]
        if len(self.roster) < 4:
            raise ValueError(
                f"dataset {dataset.code} has {len(self.roster)} subjects with trials, but one to test, one to "
                "validate and two to censor are needed: use a dataset of at least 4."
            )
        self.digests = fingerprints(self.X, self.y, self.subjects)

    def successor(self, test_subject):
        """Return who validates when a subject tests.

        Parameters
        ----------
        test_subject : object
            The subject left out.

        Returns
        -------
        subject : object
            The next one in the dataset's list.
        """
        others = self.subjects[self.subjects != test_subject]
        return validation_subject(others, self.roster).item()


def make_dataset(dataset, options):
    """Return a dataset by name or folder.

    Parameters
    ----------
    dataset : str, path-like or moabb.datasets.base.BaseDataset
        As in :class:`AutoTransfer`.
    options : dict
        Options of a dataset given by name.

    Returns
    -------
    dataset : moabb.datasets.base.BaseDataset
        One that was given as such comes back as it is.
    """
    if not isinstance(dataset, (str, os.PathLike)):
        return dataset
    if Path(dataset).is_dir():
        return EpochsFolder(dataset, **options)
    return get_dataset(str(dataset), **options)


def digest_of_data(recording):
    """Return a digest of all trials of all subjects.

    Parameters
    ----------
    recording : Recording
        The trials.

    Returns
    -------
    digest : str
        Hexadecimal.
    """
    return sha256(repr(sorted(recording.digests.items())).encode()).hexdigest()
