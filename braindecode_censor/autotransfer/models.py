"""The decoder: a weighted average of models, for anybody, for one person, or learning a person as trials arrive."""

from dataclasses import dataclass, replace

import numpy as np

from braindecode_censor.search.pair_trainings import adapt_to, quiet

__all__ = ["Ensemble", "Model", "share_out_models"]

_MODELS = 32  # in an ensemble at most, or one of every candidate


@dataclass
class Model:
    """One fitted estimator of an ensemble.

    Parameters
    ----------
    candidate : str
        Name of the candidate.
    kind : {"network", "classical", "own"}
        Kind of the candidate.
    position : int
        Position of the pair that it was trained without.
    weight : float
        Its share in the average.
    estimator : object
        Fitted on the classes 0 .. C-1, or some of them.
    """

    candidate: str
    kind: str
    position: int
    weight: float
    estimator: object


class Ensemble:
    """A weighted average of fitted models.

    Parameters
    ----------
    models : list of Model
        Their weights sum to one.
    n_classes : int
        Classes.
    """

    def __init__(self, models, n_classes):
        self.models, self.n_classes = list(models), n_classes

    def predict_proba(self, signals):
        """Return the average of the models' probabilities.

        Parameters
        ----------
        signals : ndarray of shape (n_trials, n_chans, n_times)
            Trials.

        Returns
        -------
        probabilities : ndarray of shape (n_trials, n_classes)
            Rows sum to one.
        """
        total = np.zeros((len(signals), self.n_classes))
        with quiet():
            for model in self.models:
                known = np.asarray(model.estimator.classes_, dtype=int)
                total[:, known] += model.weight * model.estimator.predict_proba(signals)
        return total

    def adapt(self, signals, codes=None):
        """Return an ensemble for one person.

        Parameters
        ----------
        signals : ndarray of shape (n_trials, n_chans, n_times)
            Trials of the person.
        codes : ndarray of int of shape (n_trials,) or None
            Their classes, if they are known.

        Returns
        -------
        ensemble : Ensemble
            This one stays as it is.
        """
        with quiet():
            return self._with(lambda estimator: adapt_to(estimator, signals, codes))

    def stream(self):
        """Return an ensemble that learns a person as trials arrive.

        Returns
        -------
        ensemble : Ensemble
            Models that cannot stay as they are.
        """
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
        """Return the part of the ensemble that are networks, as an ensemble of its own.

        Returns
        -------
        ensemble : Ensemble
            Without models if there is no network.
        """
        kept = [model for model in self.models if model.kind == "network"]
        total = sum(model.weight for model in kept)
        return Ensemble([replace(model, weight=model.weight / total) for model in kept], self.n_classes)


def share_out_models(weights, positions):
    """Choose which models of each candidate are kept.

    Parameters
    ----------
    weights : dict of str to float
        Share of every candidate in the ensemble, with sum one.
    positions : list of int
        Pairs for which all candidates were trained.

    Returns
    -------
    chosen : list of (str, int, float)
        Candidate, pair and weight. A candidate has as many models as its share of 32 says, at least two where there
        are two, spread over the pairs; their weights sum to its share.
    """
    chosen = []
    for name, weight in weights.items():
        if weight <= 0:
            continue
        count = min(len(positions), max(2, round(weight * _MODELS)))
        kept = np.unique(np.linspace(0, len(positions) - 1, count).round().astype(int))
        chosen += [(name, positions[k], weight / len(kept)) for k in kept]
    return chosen
