"""How far a stream trusts the training subjects' statistics where recordings show one class after the other."""

import numpy as np

from braindecode_censor.decoder.ensemble import Ensemble
from braindecode_censor.decoder.stream import TrialwiseEnsemble
from braindecode_censor.decoder.teaching import log_probabilities
from braindecode_censor.trials.balance import balanced_weights

__all__ = ["choose_stream_prior", "design_effect"]

_BY_CHANCE = 2.0  # below it, the order counts as random
_SUBJECTS, _TRIALS = 8, 60  # held-out streams, and their length


def design_effect(labels, n_classes):
    r"""Return how many trials in recorded order tell as much of the class proportions as one drawn at random.

    With the class shares :math:`s_n` of a subject's first n trials and its proportions π, it is the mean over subjects
    and over :math:`\log n` of

    .. math:: \frac{n\,|s_n - \pi|^2}{1 - |\pi|^2}
    """
    effects, weights = [], []
    for y in labels:
        classes, n = np.eye(n_classes)[y], np.arange(1, len(y) + 1)
        share = classes.mean(axis=0)
        shares = classes.cumsum(axis=0) / n[:, None]
        spread = max(1 - (share**2).sum(), 1 / len(y))
        effects.append(n * ((shares - share) ** 2).sum(axis=1) / spread)
        weights.append(1 / n)
    return float(np.average(np.concatenate(effects), weights=np.concatenate(weights)))


def choose_stream_prior(ensemble, trials):
    """Return the factor of the prior in streams: 1, or the design effect if held-out streams gain by it."""
    effect = design_effect(trials.labels, trials.data.n_classes)
    if effect < _BY_CHANCE:
        return 1.0
    streams = []
    for subject in np.random.default_rng(trials.random_state).permutation(trials.n_subjects)[:_SUBJECTS]:
        unseen = [model for model in ensemble.models if subject in trials.folds[model.fold]]
        if unseen:
            rows = trials.data.rows([subject])[:_TRIALS]
            signals = np.asarray(trials.data.take(rows))  # They may be in a file.
            streams.append((Ensemble(unseen, ensemble.n_classes), signals, trials.data.y[rows]))
    losses = {
        factor: sum(_loss(one.with_prior(factor), X, y) for one, X, y in streams) for factor in (1.0, effect)
    }
    return min(losses, key=losses.get)


def _loss(ensemble, X, y):
    probabilities = TrialwiseEnsemble(ensemble, streams=True).predict_proba(X)
    logs = log_probabilities(probabilities / probabilities.sum(axis=1, keepdims=True))
    return -(balanced_weights(y, np.zeros(len(y))) * logs[np.arange(len(y)), y]).sum()
