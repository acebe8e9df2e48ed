"""What held-out subjects tell about teaching: class proportions, and weights of the terms by the size of a block."""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from braindecode_censor._check import check_choice, check_positive
from braindecode_censor.classical.views import make_views
from braindecode_censor.decoder.forecast import Forecaster
from braindecode_censor.decoder.teaching import estimate_proportions, log_probabilities

__all__ = ["MODES", "SIZES", "Teacher", "check_proportions", "distance"]

#: What may be said of the class proportions of a block; a dictionary of them is the third possibility.
MODES = ("as-trained", "unknown")
#: Sizes of smaller blocks for which weights are learned, too.
SIZES = (10, 30)
#: So few trials teach nothing, and from so many on the weights are those that were learned.
_FADE = (5, 10), (10, 30)  # for each mode


def check_proportions(proportions, classes):
    """Return the mode, or the shares of a dictionary in the order of the classes."""
    if not isinstance(proportions, dict):
        return check_choice("proportions", proportions, MODES)
    for name in proportions:
        if name not in classes:
            raise ValueError(f"proportions has the class {name!r}; fit had {classes.tolist()}.")
    classes = classes.tolist()
    shares = np.array([check_positive(f"proportions[{k!r}]", proportions.get(k, 0), True) for k in classes])
    if not np.isclose(shares.sum(), 1, atol=0.01):
        raise ValueError(f"proportions={proportions!r} sum to {shares.sum():g}: give shares that sum to 1.")
    return shares


def distance(first, second):
    """Return the total variation between class proportions."""
    return 0.5 * np.abs(first - second).sum()


@dataclass
class Teacher:
    """What is needed to learn from a new subject's trials."""

    proportions: np.ndarray  # (n_classes,), means over training subjects
    sizes: np.ndarray  # (n_sizes,) of blocks
    weights: np.ndarray  # (n_modes, n_sizes, 2 + n_views)
    limits: np.ndarray  # (n_sizes,): distances of estimated proportions that are usual
    centres: list  # of each view, of the training subjects
    bands: list  # of the view of several bands
    forecaster: Forecaster

    @cached_property
    def views(self):
        """The views, which compute features."""
        return make_views(self.bands)

    def choose(self, logs, y, proportions, warn=True):
        """Return the proportions to expect of a block, None if unknown, and the weights of its terms."""
        if not isinstance(proportions, str):
            return proportions, self._weights_at(len(logs), 0)
        if proportions == "as-trained" and self._is_usual(logs, y):
            return self.proportions, self._weights_at(len(logs), 0)
        if proportions == "as-trained" and warn:
            warnings.warn(
                "The class proportions of these trials seem to differ from those of the training subjects, so "
                "proportions='unknown' is used. If you know them, pass proportions={class: share}.",
                stacklevel=5,
            )
        return None, self._weights_at(len(logs), 1)

    def _weights_at(self, n_trials, mode):
        by_term = self.weights[mode].T
        weights = np.array([np.interp(np.log(n_trials), np.log(self.sizes), w) for w in by_term])
        few, many = _FADE[mode]
        if self.sizes[0] >= few:  # Blocks of labelled trials teach from the smallest on.
            weights[1:] *= np.clip((n_trials - few) / (many - few), 0, 1)
        return weights

    def _is_usual(self, logs, y):
        if y is not None:
            if (y >= 0).all():
                return True
            logs = np.where(y[:, None] < 0, logs, log_probabilities(np.eye(logs.shape[1])[y]))
        limit = np.interp(np.log(len(logs)), np.log(self.sizes), self.limits)
        return distance(estimate_proportions(logs), self.proportions) <= limit
