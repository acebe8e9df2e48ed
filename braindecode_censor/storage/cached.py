"""An estimator whose training was done before: ``fit`` reads it."""

from typing import ClassVar

from sklearn.base import BaseEstimator, ClassifierMixin

from braindecode_censor.storage.trainings import TrainingCache
from braindecode_censor.training.persistence import unsaved_params

__all__ = ["CachedClassifier"]


class CachedClassifier(ClassifierMixin, BaseEstimator):
    """Stands in for an estimator in an evaluation of MOABB, and answers what the finished training answers.

    Parameters
    ----------
    estimator : CensoredEEGClassifier
        What was trained.
    folder : str
        Folder of a :class:`~braindecode_censor.storage.trainings.TrainingCache`.
    key : str
        Name of the training there.

    Attributes
    ----------
    estimator_ : CensoredEEGClassifier
        As read from the folder. Scorers find its attributes, such as ``valid_score_``, here too.
    """

    __metadata_request__fit: ClassVar = {"subjects": True}

    def __init__(self, estimator, folder, key):
        self.estimator = estimator
        self.folder = folder
        self.key = key

    def fit(self, X, y, subjects=None):
        """Read the training, whatever trials are given: they were looked at when the key was made.

        Parameters
        ----------
        X : ndarray of shape (n_trials, n_chans, n_times)
            Signals.
        y, subjects : ndarray of shape (n_trials,)
            Classes and subjects.

        Returns
        -------
        self : CachedClassifier
            Fitted.
        """
        cache = TrainingCache(self.folder)
        record = cache.read(self.key)
        if record is None:
            raise ValueError(f"training {self.key} is missing or damaged in {self.folder}: train it again.")
        if "error" in record:
            raise ValueError(record["error"])
        own = {"device": self.estimator.device, **unsaved_params(self.estimator)}
        self.estimator_ = cache.load(self.key, **own)
        self.classes_ = self.estimator_.classes_
        return self

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

    def __getattr__(self, name):
        if name.startswith("__") or not name.endswith("_") or "estimator_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.estimator_, name)
