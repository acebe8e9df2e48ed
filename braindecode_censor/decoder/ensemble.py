"""The decoder itself: a weighted average of models, general, adapted to one subject, or adapting trial by trial."""

import copy
import warnings
from dataclasses import dataclass, replace

import numpy as np

from braindecode_censor.run.decode import adapt_to, quiet
from braindecode_censor.run.model import is_network

__all__ = ["Ensemble", "Model", "select_models"]

_N_MODELS = 32  # in an ensemble at most, or two of every candidate


@dataclass
class Model:
    """One fitted estimator of an ensemble."""

    candidate: str
    fold: int
    weight: float
    estimator: object


class Ensemble:
    """A weighted average of fitted models."""

    def __init__(self, models, n_classes):
        self.models, self.n_classes = list(models), n_classes

    def predict_proba(self, signals):
        """Return the average of the models' probabilities."""
        total = np.zeros((len(signals), self.n_classes))
        with quiet():
            for model in self.models:
                columns = np.asarray(model.estimator.classes_, dtype=int)
                total[:, columns] += model.weight * model.estimator.predict_proba(signals)
        return total

    def adapt(self, signals, y_encoded=None):
        """Return an ensemble for one subject."""
        with quiet():
            return self._map(lambda estimator: adapt_to(estimator, signals, y_encoded))

    def stream(self):
        """Return an ensemble that adapts to a subject trial by trial."""
        return self._map(lambda estimator: estimator.stream() if hasattr(estimator, "stream") else estimator)

    def with_prior(self, factor):
        """Return an ensemble in which the training subjects' statistics count as more trials by a factor."""
        return self if factor == 1 else self._map(lambda estimator: _with_prior(estimator, factor))

    def _map(self, change):
        models = []
        for model in self.models:
            estimator = change(model.estimator)
            if not hasattr(estimator, "classes_"):  # A stream of a network has none.
                estimator.classes_ = model.estimator.classes_
            models.append(replace(model, estimator=estimator))
        return Ensemble(models, self.n_classes)

    def networks(self, part=False):
        """Return an ensemble of the networks alone, with weights that sum to one; warn if that is another decoder."""
        models = [model for model in self.models if is_network(model.estimator)]
        total = sum(model.weight for model in models)
        fraction = total / sum(model.weight for model in self.models)
        message = (
            f"the networks have {fraction:.0%} of the ensemble's weight; classical models cannot be exported"
        )
        if models and fraction < 0.5 and not part:
            raise ValueError(f"{message}: pass part=True for the networks alone, whose probabilities differ.")
        if models and len(models) < len(self.models):
            warnings.warn(f"{message}, so the probabilities differ from predict_proba.", stacklevel=3)
        return Ensemble([replace(model, weight=model.weight / total) for model in models], self.n_classes)


def _with_prior(estimator, factor):
    if not (hasattr(estimator, "stream") and hasattr(estimator, "prior")):
        return estimator
    estimator = copy.copy(estimator)
    estimator.prior *= factor
    if is_network(estimator):
        estimator.normalizer_ = copy.copy(estimator.normalizer_)
        estimator.normalizer_.prior *= factor
    return estimator


def select_models(weights, folds):
    """Return (candidate, fold, weight) of the models in the ensemble, evenly spread over each candidate's folds."""
    models = []
    for name, weight in weights.items():
        if weight <= 0:
            continue
        count = min(len(folds[name]), max(2, round(weight * _N_MODELS)))
        idx = np.unique(np.linspace(0, len(folds[name]) - 1, count).round().astype(int))
        models += [(name, folds[name][i], weight / len(idx)) for i in idx]
    return models
