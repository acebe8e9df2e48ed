"""MOABB's cross-subject evaluation with its trainings done as a fleet."""

import tempfile
from pathlib import Path

import moabb.evaluations
import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import LabelEncoder

from braindecode_censor.fleet.trainings import train_all
from braindecode_censor.paper.cached import CachedClassifier
from braindecode_censor.storage.keys import subject_digests, training_key
from braindecode_censor.storage.trainings import TrainingCache
from braindecode_censor.training.classifier import CensoredEEGClassifier
from braindecode_censor.trials.stored import StoredSignals

__all__ = ["CrossSubjectEvaluation"]


class CrossSubjectEvaluation(moabb.evaluations.CrossSubjectEvaluation):
    """MOABB's evaluation, which trains all folds of all our pipelines together before it scores them.

    Rows, file and digests are MOABB's own, under the pipelines' own names, so results of either evaluation
    are found by the other. Pipelines that the fleet cannot train (other people's, or with steps before the
    classifier) are trained by MOABB as ever. The column ``time`` is what reading a training takes; the time
    it took to train is in the record of the training.
    """

    def __init__(self, *args, cache=None, fleet=None, trials=None, **kwargs):
        super().__init__(*args, **kwargs)
        self._forgotten = None if cache is not None else tempfile.TemporaryDirectory()
        self.cache = Path(self._forgotten.name if cache is None else cache)
        self.fleet = dict(fleet or {})
        self.trials = trials

    def _load_data(self, *args, **kwargs):
        if self.trials is None:
            return super()._load_data(*args, **kwargs)
        X, *labels = self.trials
        return _Parts(X) if isinstance(X, StoredSignals) else X, *labels

    def _build_task_list(self, dataset, X, y, metadata, *args, **kwargs):
        tasks = super()._build_task_list(dataset, X, y, metadata, *args, **kwargs)
        X = X.signals if isinstance(X, _Parts) else X
        subjects, y = metadata["subject"].to_numpy(), np.asarray(y)
        codes = y if self.mne_labels else LabelEncoder().fit_transform(y)
        cache, waiting, known = TrainingCache(self.cache), {}, {}
        for task in tasks:
            clf, seen = self._trainable(task, y), task["train_idx"]
            if clf is None:
                continue
            key = training_key(clf, subjects[seen], _digests(X, codes, subjects, seen, known))
            task["pipeline"] = make_pipeline(CachedClassifier(clone(clf), str(self.cache), key))
            if cache.read(key) is None:
                waiting[key] = (key, clf, seen)
        options = {"folder": cache.folder / "fleet", **self.fleet}
        for key, training in train_all(list(waiting.values()), X, codes, subjects, **options):
            cache.write(key, training)
        return tasks

    def _trainable(self, task, y):
        """The classifier of a fold if it is ours alone and sees all classes; else None."""
        steps = task["pipeline"].steps if isinstance(task["pipeline"], Pipeline) else [("", task["pipeline"])]
        ours = len(steps) == 1 and type(steps[0][1]) is CensoredEEGClassifier
        # MOABB numbers the classes of a fold; they are the whole dataset's only if none is missing
        whole = len(np.unique(y[task["train_idx"]])) == len(np.unique(y))
        return clone(steps[0][1]) if ours and whole and task["config"]["param_grid"] is None else None


class _Parts:
    """Signals in a file, of which MOABB takes a fold's without reading them: who was trained before needs none."""

    def __init__(self, signals):
        self.signals, self.shape = signals, signals.shape

    def __getitem__(self, positions):
        return self.signals.part(positions)


def _digests(X, y, subjects, seen, known):
    """Digests of the trials that a fold sees, by subject; the same trials of a subject are digested once for all."""
    found, owners = {}, subjects[seen]
    for subject in np.unique(owners):
        mine = seen[owners == subject]
        place = (subject, mine.tobytes())
        if place not in known:
            known[place] = subject_digests(X[mine], y[mine], subjects[mine])
        found |= known[place]
    return found
