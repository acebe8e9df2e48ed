"""From probabilities to decisions: a threshold, agreement over time, and a pause; without a clock."""

from collections import deque

import numpy as np

__all__ = ["Decide"]


class Decide:
    """Decide for a class, or not.

    Probabilities of overlapping windows are never multiplied, since they tell the same twice.

    Parameters
    ----------
    classes : ndarray
        Labels, in the order of the probabilities.
    sure : float
        Smallest probability of a decision.
    smooth : float or None
        Seconds over which the geometric mean of the probabilities is taken.
    agree : int or None
        Number of successive windows that have to be sure of one class.
    pause : float
        Seconds after a decision without another.
    idle : object
        Class that is no decision, such as rest.
    """

    def __init__(self, classes, sure=0.8, smooth=None, agree=None, pause=0.0, idle=None):
        if smooth is not None and agree is not None:
            raise ValueError("smooth and agree exclude each other: pass one of them.")
        if not 0 <= sure <= 1:
            raise ValueError(f"sure={sure!r} must lie between 0 and 1.")
        if idle is not None and idle not in classes:
            raise ValueError(f"idle={idle!r} is no class; the decoder has {np.asarray(classes).tolist()}.")
        self.classes, self.sure, self.smooth, self.agree = classes, sure, smooth, agree
        self.pause, self.idle = pause, idle
        self.reset()
        self._until = -np.inf

    def reset(self):
        """Forget earlier windows, as after a gap."""
        self._recent = deque()

    def __call__(self, time, probabilities):
        """Return the label or None, the probabilities it follows from, and why it is None."""
        if self.smooth is not None:
            self._recent.append((time, np.log(np.maximum(probabilities, 1e-12))))
            while self._recent[0][0] <= time - self.smooth:
                self._recent.popleft()
            mean = np.mean([logs for _, logs in self._recent], axis=0)
            probabilities = np.exp(mean - mean.max())
            probabilities = probabilities / probabilities.sum()
        best = int(np.argmax(probabilities))
        if self.agree is not None:
            self._recent.append(best if probabilities[best] >= self.sure else None)
            while len(self._recent) > self.agree:
                self._recent.popleft()
            agreed = len(self._recent) == self.agree and set(self._recent) == {best}
            why = "" if agreed else "not agreed"
        else:
            why = "" if probabilities[best] >= self.sure else "unsure"
        if not why and self.idle is not None and self.classes[best] == self.idle:
            why = "idle"
        if not why and time < self._until:
            why = "pause"
        if why:
            return None, probabilities, why
        self._until = time + self.pause
        if self.pause:
            self.reset()
        return self.classes[best], probabilities, ""
