"""Normalise one person's trials in the order in which they arrive, each with what is known by then."""

import numpy as np

__all__ = ["SubjectStream"]


class SubjectStream:
    """A causal normaliser: trial n is mapped with the statistic of trials 1 .. n, shrunk by the prior.

    Parameters
    ----------
    normalizer : SubjectNormalizer
        A fitted normaliser of its own; made by :meth:`SubjectNormalizer.stream`. It is updated with every trial
        and is at any time what ``adapt`` on all trials so far would return.
    """

    def __init__(self, normalizer):
        self.normalizer = normalizer

    def transform(self, X):
        """Normalise the next trials; those of later calls are later trials.

        Parameters
        ----------
        X : array-like, Tensor, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials in the order in which they were recorded.

        Returns
        -------
        X : ndarray of shape (n_trials, n_chans, n_times)
            Normalised signals.
        """
        signals = self.normalizer._read(X)
        return np.concatenate([self._transform_one(trial[None]) for trial in signals])

    def _transform_one(self, trial):
        self.normalizer._add_to_target(trial)
        return self.normalizer.transform(trial)
