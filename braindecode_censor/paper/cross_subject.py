"""MOABB's cross-subject evaluation, with our trainings done by ``run`` and read from its store."""

import tempfile
from typing import ClassVar

import moabb.evaluations
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import LabelEncoder

from braindecode_censor.run.runner import run
from braindecode_censor.run.training import Training, TrainingResult, TrialData
from braindecode_censor.storage.store import Store
from braindecode_censor.training.classifier import CensoredEEGClassifier
from braindecode_censor.training.persistence import unsaved_params
from braindecode_censor.trials.stored import StoredSignals

__all__ = ["CachedClassifier", "CrossSubjectEvaluation"]


class CrossSubjectEvaluation(moabb.evaluations.CrossSubjectEvaluation):
    """MOABB's evaluation, which trains the folds of all our pipelines together before it scores them.

    Rows, file and digests are MOABB's, under the pipelines' names, so each evaluation reads results of the other.
    MOABB trains all other pipelines: those with steps before our classifier, and folds that
    cut through subjects. The column ``time`` is the time to read a training.
    """

    def __init__(self, *args, cache=None, data=None, in_memory=True, **kwargs):
        super().__init__(*args, **kwargs)
        self._temporary = None if cache is not None else tempfile.TemporaryDirectory()
        self.store = Store(self._temporary.name if cache is None else cache)
        self.data, self.in_memory = data, in_memory

    def _load_data(self, *args, **kwargs):
        if self.data is None or self.in_memory:
            return super()._load_data(*args, **kwargs)
        X = self.data.X
        X = _UnreadSignals(X) if isinstance(X, StoredSignals) else X
        return X, self.data.labels, self.data.metadata

    def _build_task_list(self, dataset, X, y, metadata, *args, **kwargs):
        tasks = super()._build_task_list(dataset, X, y, metadata, *args, **kwargs)
        data, trainings = self.data, {}
        if data is None:
            y_encoded = np.asarray(y) if self.mne_labels else LabelEncoder().fit_transform(y)
            data = TrialData(X, y_encoded, metadata["subject"].to_numpy())
        for task in tasks:
            training = _as_training(task, data)
            if training is None:
                continue
            key = training.key(data)
            task["pipeline"] = make_pipeline(CachedClassifier(training.estimator, self.store.folder, key))
            if self.store.read(key) is None:
                trainings[key] = training
        for result in run(trainings.values(), data, self.store):
            if result.error is not None and not result.diverged:
                raise ValueError(result.error)
        return tasks


def _as_training(task, data):
    """Return the training of a fold of MOABB, or None if MOABB has to train it."""
    steps = task["pipeline"].steps if isinstance(task["pipeline"], Pipeline) else [("", task["pipeline"])]
    if len(steps) > 1 or type(steps[0][1]) is not CensoredEEGClassifier or task["config"]["param_grid"]:
        return None
    train, test = (np.unique(data.subjects[task[name]]).tolist() for name in ("train_idx", "test_idx"))
    if not np.array_equal(data.rows(train), np.sort(task["train_idx"])):
        return None
    # MOABB encodes the classes of a fold, which are those of the dataset only if none is missing.
    if len(np.unique(data.y[task["train_idx"]])) < data.n_classes:
        return None
    return Training(task["pipeline_name"], clone(steps[0][1]), tuple(train), tuple(test))


class _UnreadSignals:
    """Signals in a file, of which a fold is not read before it is needed, which a finished training never does."""

    def __init__(self, signals):
        self.signals, self.shape = signals, signals.shape

    def __getitem__(self, positions):
        return self.signals.subset(positions)


class CachedClassifier(ClassifierMixin, BaseEstimator):
    """An estimator whose ``fit`` reads a finished training."""

    __metadata_request__fit: ClassVar = {"subjects": True}

    def __init__(self, estimator, folder, key):
        self.estimator = estimator
        self.folder = folder
        self.key = key

    def fit(self, X, y, subjects=None):
        """Read the training; the trials are part of its key."""
        content = Store(self.folder).read(self.key)
        if content is None:
            raise ValueError(f"training {self.key} is missing or damaged in {self.folder}: train it again.")
        result = TrainingResult.from_bytes(None, content)
        if result.error is not None:
            raise ValueError(result.error)
        self.estimator_ = result.estimator(self.estimator.device, **unsaved_params(self.estimator))
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
