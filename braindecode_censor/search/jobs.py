"""One training of an experiment, and the key under which it is kept."""

from dataclasses import dataclass

import pandas as pd

from braindecode_censor.search.candidates import Setting
from braindecode_censor.storage.keys import training_key
from braindecode_censor.training.classifier import CensoredEEGClassifier

__all__ = ["Job", "index_of", "make_estimator"]


@dataclass(frozen=True)
class Job:
    """One training.

    Parameters
    ----------
    setting : Setting
        How.
    seed : int
        Seed.
    test_subject : object
        Whose trials are left out.
    valid_subject : object
        Who validates; "rotate" is the successor of the test subject.
    """

    setting: Setting
    seed: int
    test_subject: object
    valid_subject: object = "rotate"

    def seen(self, recording):
        """Return which trials the training may see.

        Parameters
        ----------
        recording : Recording
            The data.

        Returns
        -------
        seen : ndarray of bool of shape (n_trials,)
            False for those of the test subject.
        """
        return recording.subjects != self.test_subject

    def estimator(self, recording, training):
        """Return the classifier to train.

        Parameters
        ----------
        recording : Recording
            The data.
        training : dict
            Arguments that all trainings share.

        Returns
        -------
        clf : CensoredEEGClassifier
            Not fitted.
        """
        return make_estimator(self.setting, self.seed, training, recording.all_subjects, self.valid_subject)

    def key(self, recording, training):
        """Return the name under which the training is kept.

        Parameters
        ----------
        recording : Recording
            The data.
        training : dict
            Arguments that all trainings share.

        Returns
        -------
        key : str
            From :func:`~braindecode_censor.storage.keys.training_key`.
        """
        clf = self.estimator(recording, training)
        return training_key(clf, recording.subjects[self.seen(recording)], recording.digests)


def make_estimator(setting, seed, training, all_subjects, valid_subject="rotate"):
    """Return the classifier of a setting.

    Parameters
    ----------
    setting : Setting
        How to censor.
    seed : int
        Seed.
    training : dict
        Arguments that all trainings share.
    all_subjects : list
        All subjects of the dataset.
    valid_subject : object
        Who validates.

    Returns
    -------
    clf : CensoredEEGClassifier
        Not fitted.
    """
    return CensoredEEGClassifier(
        **{**training, **setting.parameters()},
        random_state=seed,
        all_subjects=list(all_subjects),
        valid_subject=valid_subject,
    )


def index_of(jobs, recording, training):
    """Return which key belongs to which fold of the cross-validation.

    Parameters
    ----------
    jobs : list of Job
        Trainings of the cross-validation.
    recording : Recording
        The data.
    training : dict
        Arguments that all trainings share.

    Returns
    -------
    index : DataFrame
        Columns setting, seed, subject (whose trials were left out) and key.
    """
    rows = [(job.setting.name, job.seed, job.test_subject, job.key(recording, training)) for job in jobs]
    return pd.DataFrame(rows, columns=["setting", "seed", "subject", "key"])
