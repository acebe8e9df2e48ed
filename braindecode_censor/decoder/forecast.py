"""The score to expect of one subject, from its unlabelled trials, where held-out subjects show that it can be told."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from braindecode_censor.decoder.expectation import prediction_interval
from braindecode_censor.decoder.teaching import answer

__all__ = ["Forecast", "Forecaster", "block_statistics"]

_LEVEL = 0.8
_FEWEST = 8  # subjects
_MODEL = make_pipeline(StandardScaler(), Ridge())
_CHANCE = 0.05  # of a rank correlation as high as this without any relation


@dataclass
class Forecast:
    """The expected balanced accuracy of one subject with its interval."""

    score: float
    low: float
    high: float
    level: float = _LEVEL

    def __str__(self):
        return f"{self.score:.3f} ({self.level:.0%} interval {self.low:.3f} to {self.high:.3f})"


def block_statistics(terms, weights):
    """Return statistics of a block that need no label: mean confidence, and agreement of views with the ensemble."""
    taught, classes = np.exp(answer(terms, weights)), terms[0].argmax(axis=1)
    views = [view for view, weight in zip(terms[2:], weights[2:]) if weight]
    agreement = np.mean([view.argmax(axis=1) == classes for view in views]) if views else 0.0
    return np.array([taught.max(axis=1).mean(), agreement])


@dataclass
class Forecaster:
    """A ridge regression of held-out subjects' nested scores on the statistics of their blocks."""

    statistics: np.ndarray  # (n_subjects, n_statistics), see block_statistics
    scores: np.ndarray  # (n_subjects,), balanced accuracies

    @cached_property
    def left_out(self):
        """Leave-one-subject-out forecasts, NaN for few subjects."""
        if len(self.scores) < _FEWEST:
            return np.full(len(self.scores), np.nan)
        return cross_val_predict(_MODEL, self.statistics, self.scores, cv=LeaveOneOut())

    @cached_property
    def rank_correlation(self):
        """Spearman's correlation of leave-one-subject-out forecasts with the scores."""
        return spearmanr(self.left_out, self.scores, alternative="greater")

    @property
    def predicts(self):
        """True if the forecasts of held-out subjects are related to their scores."""
        return bool(np.ptp(self.scores) > 0 and self.rank_correlation.pvalue < _CHANCE)

    def interval(self, score, without=()):
        """Return the interval around a forecast, from the errors for the other subjects."""
        errors = np.delete(self.scores - self.left_out, without)
        return prediction_interval(score + errors - errors.mean(), _LEVEL)

    def forecast(self, statistics):
        """Return the :class:`Forecast` of a block, or "unknown" where held-out subjects were not predicted."""
        if not self.predicts:
            return "unknown"
        model = clone(_MODEL).fit(self.statistics, self.scores)
        score = float(np.clip(model.predict(statistics[None])[0], 0, 1))
        return Forecast(score, *self.interval(score))
