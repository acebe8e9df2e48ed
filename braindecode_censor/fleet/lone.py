"""A training that the fleet does by itself."""

import time

from braindecode_censor.training.rules import DivergedError

__all__ = ["LoneMember"]


class LoneMember:
    """An estimator whose network cannot be in a fleet."""

    def __init__(self, key, clf, seen, alone):
        self.key, self.clf, self.seen, self.alone = key, clf, seen, alone
        self.seconds, self.error = 0.0, None

    def train(self, signals, y, subjects):
        """Fit the estimator."""
        began = time.perf_counter()
        try:
            self.clf.fit(signals[self.seen], y[self.seen], subjects=subjects[self.seen])
        except DivergedError as error:
            self.error = str(error)
        else:
            if not self.clf.complete_:
                raise KeyboardInterrupt  # skorch swallows it and returns a net that looks fitted
        self.seconds = time.perf_counter() - began
