"""The overall amplitude of a subject, estimated apart from the shape of the subject's statistics.

Amplifier, electrodes and unit multiply all signals of a subject by one number. So statistics of several subjects are
averaged after division by each subject's amplitude, and those of a new subject are shrunk towards this mean at the new
subject's amplitude. A few trials do not tell that amplitude where classes differ in theirs, as in EMG. So its logarithm
has a prior with heavy tails, Student's t: an amplifier a hundred times off is believed at once, a loud gesture is not.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["AmplitudePrior", "log_amplitude"]

_DEGREES = 3  # of freedom of Student's t
_LEAST = 0.2, 0.1  # spreads, between subjects and of trials, since few subjects tell little about them
_N_ITERATIONS = 20
_PRIOR = 5.0  # trials, by default, that the population's statistics count as


def log_amplitude(variances):
    """Return the logarithm of the amplitude that follows from the variances of channels, -inf for silence."""
    with np.errstate(divide="ignore"):
        return 0.5 * np.log(np.median(variances, axis=-1))


class AmplitudePrior(NamedTuple):
    """Distribution of the logarithm of a subject's amplitude."""

    centre: float
    spread: float  # between subjects
    trial_spread: float  # of single trials about their subject's

    @classmethod
    def of_subjects(cls, levels, trial_spreads):
        """Return the prior by the medians of training subjects, which one subject in another unit does not change."""
        levels = levels[np.isfinite(levels)] if np.isfinite(levels).any() else np.zeros(1)
        centre = float(np.median(levels))
        spreads = 1.4826 * np.median(np.abs(levels - centre)), np.median(trial_spreads)
        return cls(centre, *(float(max(pair)) for pair in zip(spreads, _LEAST)))

    def estimate(self, level, n_trials, prior=_PRIOR):
        """Return the most probable log-amplitude of a subject whose trials have this one; `prior` as in `adapt`."""
        if not np.isfinite(level):
            return self.centre
        # The first trials tell less and later ones more than independent ones would, because classes take turns.
        precision, estimate = (n_trials / (2 * self.trial_spread)) ** 2, level
        for _ in range(_N_ITERATIONS):  # Student's t as a mixture of normal distributions
            weight = (
                prior / _PRIOR * (_DEGREES + 1) / (_DEGREES * self.spread**2 + (estimate - self.centre) ** 2)
            )
            estimate = self.centre + precision / (precision + weight) * (level - self.centre)
        return estimate
