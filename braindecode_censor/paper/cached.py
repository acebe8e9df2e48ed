"""An estimator whose training was done before: ``fit`` reads it."""

from typing import ClassVar

from sklearn.base import BaseEstimator, ClassifierMixin

from braindecode_censor.storage.trainings import TrainingCache
from braindecode_censor.training.persistence import unsaved_params

__all__ = ["CachedClassifier"]


class CachedClassifier(ClassifierMixin, BaseEstimator):
    """Stands in for an estimator in an evaluation of MOABB, and answers what the finished training answers."""

    __metadata_request__fit: ClassVar = {"subjects": True}

    def __init__(self, estimator, folder, key):
        self.estimator = estimator
        self.folder = folder
        self.key = key

    def fit(self, X, y, subjects=None):
        """Read the training, whatever trials are given: they were looked at when the key was made."""
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
        """Return the class of every trial."""
        return self.estimator_.predict(X)

    def predict_proba(self, X):
        """Return the probability of every class."""
        return self.estimator_.predict_proba(X)

    def __getattr__(self, name):
        if name.startswith("__") or not name.endswith("_") or "estimator_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.estimator_, name)
