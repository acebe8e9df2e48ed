"""Views of one subject's trials: features that need no labels, as differences from the subject's own centre."""

import numpy as np

from braindecode_censor.classical import geometry
from braindecode_censor.classical.estimator import TangentSpaceClassifier

__all__ = ["View", "make_views"]


class View(TangentSpaceClassifier):
    """The features of a classical candidate without its regression."""

    def describe(self, X):
        """Return the centres of trials and their differences from these."""
        self.arrays_ = {"filters": np.eye(X.shape[1])}  # Waveforms are those of the channels.
        _, centres, vectors = self._describe_subject(X)
        return centres, vectors

    def differences(self, X, centres):
        """Return the differences of trials from given centres."""
        return self._differences(self.features_of(X), centres)

    def move(self, trial, centres, fraction):
        """Return centres moved towards one trial, of shape (1, n_chans, n_times), and its difference from them."""
        blocks = self.features_of(trial)
        centres = [geometry.between(c, block[0], fraction) for c, block in zip(centres, blocks)]
        return centres, self._differences(blocks, centres)[0]

    def features_of(self, X):
        """Return the features of trials."""
        self.arrays_ = {"filters": np.eye(X.shape[1])}
        return self._blocks(X)[0]


def make_views(bands):
    """Return the views: covariances in the whole band and in several, Hjorth's parameters, and the waveform."""
    return [
        View("covariance"),
        View("hjorth"),
        View("waveform", windows=16),
        View("covariance", bands=bands),
    ]
