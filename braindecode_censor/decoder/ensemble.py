"""The decoder: a weighted average of models, for anybody, for one person, or learning a person as trials arrive."""

from dataclasses import dataclass, replace

import numpy as np

from braindecode_censor.run.pair_trainings import adapt_to, quiet

__all__ = ["Ensemble", "Model", "share_out_models"]

_MODELS = 32  # in an ensemble at most, or one of every candidate


@dataclass
class Model:
    """One fitted estimator of an ensemble."""

    candidate: str
    kind: str
    position: int
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
                known = np.asarray(model.estimator.classes_, dtype=int)
                total[:, known] += model.weight * model.estimator.predict_proba(signals)
        return total

    def adapt(self, signals, codes=None):
        """Return an ensemble for one person."""
        with quiet():
            return self._with(lambda estimator: adapt_to(estimator, signals, codes))

    def stream(self):
        """Return an ensemble that learns a person as trials arrive."""
        return self._with(lambda estimator: estimator.stream() if hasattr(estimator, "stream") else estimator)

    def _with(self, change):
        changed = []
        for model in self.models:
            estimator = change(model.estimator)
            if not hasattr(estimator, "classes_"):  # a stream of a network
                estimator.classes_ = model.estimator.classes_
            changed.append(replace(model, estimator=estimator))
        return Ensemble(changed, self.n_classes)

    def networks(self):
        """Return the part of the ensemble that are networks, as an ensemble of its own."""
        kept = [model for model in self.models if model.kind == "network"]
        total = sum(model.weight for model in kept)
        return Ensemble([replace(model, weight=model.weight / total) for model in kept], self.n_classes)


def share_out_models(weights, positions):
    """Choose which models of each candidate are kept."""
    chosen = []
    for name, weight in weights.items():
        if weight <= 0:
            continue
        count = min(len(positions), max(2, round(weight * _MODELS)))
        kept = np.unique(np.linspace(0, len(positions) - 1, count).round().astype(int))
        chosen += [(name, positions[k], weight / len(kept)) for k in kept]
    return chosen
