"""The estimator that MOABB evaluates: it trains what was never trained and reads the rest."""

from contextlib import contextmanager
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from braindecode_censor.storage.trainings import Memory, fingerprints, train, training_key
from braindecode_censor.training.persistence import unsaved_params

__all__ = ["Remembered", "known_data"]

_GLANCE = 32  # a glance looks at every so many samples
_known = {}  # subjects and glances to digests, inside known_data


@contextmanager
def known_data(recording):
    """Spare the estimators fitted inside from digesting all their trials, which takes longer than all the rest.

    A subject whose classes and whose first, 33rd, 65th ... samples of every signal are those of the recording's is
    taken for it. That is for MOABB, which loads the recording's dataset a second time and hands out its trials again
    for every pipeline and fold; arrays that a user may have changed are always digested whole.

    Parameters
    ----------
    recording : Recording
        Whose digests are known.

    Yields
    ------
    None
        While it lasts.
    """
    global _known
    glances = fingerprints(recording.X, recording.y, recording.subjects, every=_GLANCE)
    before, _known = _known, {place: recording.digests[place[0]] for place in glances.items()}
    try:
        yield
    finally:
        _known = before


def _digests(X, y, subjects):
    known = _known
    if known:
        glances = fingerprints(X, y, subjects, every=_GLANCE)
        if known.keys() >= glances.items():
            return {place[0]: known[place] for place in glances.items()}
    return fingerprints(X, y, subjects)


class Remembered(ClassifierMixin, BaseEstimator):
    """An estimator whose ``fit`` looks into a :class:`Memory` first.

    Parameters
    ----------
    estimator : CensoredEEGClassifier
        What to train.
    memory : str
        Folder of finished trainings.

    Attributes
    ----------
    estimator_ : CensoredEEGClassifier
        As read from the folder, also right after training, so a resumed run has the same bits.
    valid_score_ : float
        Balanced accuracy on the validation subject.
    """

    __metadata_request__fit: ClassVar = {"subjects": True}

    def __init__(self, estimator, memory):
        self.estimator = estimator
        self.memory = memory

    def fit(self, X, y, subjects=None):
        """Read the training if it was done before, else do it and write it down.

        Parameters
        ----------
        X : ndarray of shape (n_trials, n_chans, n_times)
            Signals.
        y, subjects : ndarray of shape (n_trials,)
            Classes and subjects.

        Returns
        -------
        self : Remembered
            Fitted.
        """
        memory, subjects = Memory(self.memory), np.asarray(subjects)
        key = self._key(X, y, subjects)
        record = memory.read(key) or memory.write(key, train(self.estimator, X, y, subjects))
        if "error" in record:
            raise ValueError(record["error"])
        own = {"device": self.estimator.device, **unsaved_params(self.estimator)}
        self.estimator_ = memory.load(key, **own)
        self.classes_, self.valid_score_ = self.estimator_.classes_, record["valid_score"]
        return self

    def _key(self, X, y, subjects):
        return training_key(self.estimator, subjects, _digests(X, y, subjects))

    def predict(self, X):
        """Return the class of every trial.

        Parameters
        ----------
        X : ndarray of shape (n_trials, n_chans, n_times)
            Signals.

        Returns
        -------
        y : ndarray of shape (n_trials,)
            Labels.
        """
        return self.estimator_.predict(X)

    def predict_proba(self, X):
        """Return the probability of every class.

        Parameters
        ----------
        X : ndarray of shape (n_trials, n_chans, n_times)
            Signals.

        Returns
        -------
        probabilities : ndarray of shape (n_trials, n_classes)
            Rows sum to one.
        """
        return self.estimator_.predict_proba(X)
