"""Normalise one person's trials in the order in which they arrive, each with what is known by then."""

import numpy as np

__all__ = ["StreamingNormalizer"]


class StreamingNormalizer:
    """A causal normaliser: trial n is mapped with the statistic of trials 1 .. n, shrunk by the prior."""

    def __init__(self, normalizer):
        self.normalizer = normalizer

    def transform(self, X):
        """Normalise the next trials; those of later calls are later trials."""
        signals = self.normalizer._read(X)
        return np.concatenate([self._transform_one(trial[None]) for trial in signals])

    def _transform_one(self, trial):
        self.normalizer._add_to_target(trial)
        return self.normalizer.transform(trial)
