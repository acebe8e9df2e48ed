"""A training that the fleet does by itself."""

import time

from braindecode_censor.training.rules import DivergedError

__all__ = ["LoneMember"]


class LoneMember:
    """An estimator whose network cannot be in a fleet.

    Parameters
    ----------
    key : object
        Name of the member.
    clf : CensoredEEGClassifier
        Not fitted; this very object is fitted.
    seen : ndarray of int
        Positions of the trials that it may see.
    alone : str
        Why it is trained by itself.

    Attributes
    ----------
    seconds, error : float, str or None
        As of a :class:`~braindecode_censor.fleet.member.Member`.
    """

    def __init__(self, key, clf, seen, alone):
        self.key, self.clf, self.seen, self.alone = key, clf, seen, alone
        self.seconds, self.error = 0.0, None

    def train(self, signals, y, subjects):
        """Fit the estimator.

        Parameters
        ----------
        signals : ndarray of shape (n_trials, n_chans, n_times)
            All trials, also those that it may not see.
        y, subjects : ndarray of shape (n_trials,)
            Class and subject of every trial.
        """
        began = time.perf_counter()
        try:
            self.clf.fit(signals[self.seen], y[self.seen], subjects=subjects[self.seen])
        except DivergedError as error:
            self.error = str(error)
        else:
            if not self.clf.complete_:
                raise KeyboardInterrupt  # skorch swallows it and returns a net that looks fitted
        self.seconds = time.perf_counter() - began
