"""Features of trials for classical decoders: covariance matrices, evoked responses, powers and Hjorth's parameters.

A class has ``blocks(X, arrays)``, which returns arrays of matrices or of vectors, one row per trial, and
``rescale(centres, log_gain)``, which returns centres of features as they are if all signals are multiplied by a gain.
Those that are ``supervised`` learn filters from labels first, ``learn(X, y_encoded)``; their signals are rescaled.
"""

from functools import lru_cache

import numpy as np
from scipy.signal import butter, sosfilt, sosfilt_zi

__all__ = ["FEATURES", "shrunk_covariances"]

_RIDGE = 1e-7  # of the mean variance, so that matrices with silent channels can be inverted
_TINY = 1e-30
_MOST_FILTERS = 12
_SHORT = 512  # samples, up to which a filter is applied as a matrix


def shrunk_covariances(X):
    """Return the covariance of every trial, shrunk by the oracle approximation (OAS).

    References
    ----------
    Chen et al. (2010), Shrinkage algorithms for MMSE covariance estimation.
    """
    X = X - X.mean(axis=-1, keepdims=True)
    n_chans, n_times = X.shape[1:]
    covariances = X @ np.swapaxes(X, -1, -2) / n_times
    size = np.trace(covariances, axis1=1, axis2=2) / n_chans
    square = (covariances**2).mean(axis=(1, 2))
    excess = (n_times + 1) * (square - size**2 / n_chans)
    shrinkage = np.where(excess > _TINY, np.minimum((square + size**2) / np.maximum(excess, _TINY), 1), 1)
    ridge = shrinkage * size + _RIDGE * size + _TINY
    return (1 - shrinkage)[:, None, None] * covariances + ridge[:, None, None] * np.eye(n_chans)


class CovarianceFeatures:
    """Covariance matrices, in the whole band or in several."""

    supervised = False

    def __init__(self, bands=None, **unused):
        self.bands = bands

    def blocks(self, X, arrays):
        """Return one array of features per band."""
        if self.bands is None:
            return [shrunk_covariances(X)]
        if len(X) > 1:  # Of many trials one band at a time, for the sake of memory.
            return [shrunk_covariances(_band_pass(X, low, high)) for low, high in self.bands]
        bands = np.concatenate([_band_pass(X, low, high) for low, high in self.bands])
        return list(shrunk_covariances(bands)[:, None])

    def rescale(self, centres, log_gain):
        """Return centres after a gain."""
        return [np.exp(2 * log_gain) * centre for centre in centres]


class PowerFeatures:
    """Logarithms of the power of every channel in consecutive windows, as is usual for EMG."""

    supervised = False

    def __init__(self, windows=8, **unused):
        self.windows = windows

    def blocks(self, X, arrays):
        """Return the features as one array."""
        power = _window_variances(X, self.windows)
        # Relative to the trial, so that a silent channel has a finite logarithm in any unit.
        floor = 1e-4 * power.mean(axis=(1, 2), keepdims=True) + _TINY
        return [np.log(power + floor).reshape(len(X), -1)]

    def rescale(self, centres, log_gain):
        """Return centres after a gain."""
        return [centre + 2 * log_gain for centre in centres]


class HjorthFeatures(PowerFeatures):
    """Powers in consecutive windows, and Hjorth's mobility and complexity of each channel.

    Mobility and complexity are ratios of powers of the signal and its differences, independent of its amplitude.

    References
    ----------
    Hjorth (1970), EEG analysis based on time domain properties.
    """

    def blocks(self, X, arrays):
        """Return the features as one array."""
        powers = [np.diff(X, n=order, axis=-1).var(axis=-1) for order in range(min(3, X.shape[-1]))]
        logs = [np.log(power + 1e-4 * power.mean(axis=1, keepdims=True) + _TINY) for power in powers]
        return [*super().blocks(X, arrays), np.concatenate([logs[0][:, :0], *np.diff(logs, axis=0)], axis=1)]

    def rescale(self, centres, log_gain):
        """Return centres after a gain, which only powers depend on."""
        return [*super().rescale(centres[:1], log_gain), *centres[1:]]


class HjorthCovarianceFeatures:
    """Hjorth's parameters and covariance matrices."""

    supervised = False

    def __init__(self, bands=None, windows=8, **unused):
        self.features = HjorthFeatures(windows), CovarianceFeatures(bands)

    def blocks(self, X, arrays):
        """Return the features of both kinds."""
        return [block for features in self.features for block in features.blocks(X, arrays)]

    def rescale(self, centres, log_gain):
        """Return centres after a gain."""
        hjorth, covariance = self.features
        return [*hjorth.rescale(centres[:2], log_gain), *covariance.rescale(centres[2:], log_gain)]


class XdawnFeatures:
    """Covariance matrices of trials after xDAWN's spatial filters, with the mean responses of the classes."""

    supervised = True

    def __init__(self, n_filters=4, **unused):
        self.n_filters = n_filters

    def learn(self, X, y_encoded):
        """Learn the filters from labelled trials."""
        from pyriemann.spatialfilters import Xdawn  # It imports matplotlib.

        # Many classes get fewer filters each, because the cost grows with the cube of a matrix's size.
        n_filters = min(self.n_filters, X.shape[1], max(1, _MOST_FILTERS // len(np.unique(y_encoded))))
        xdawn = Xdawn(n_filters, estimator="oas" if X.shape[1] > 1 else "scm").fit(X, y_encoded)
        # The features must not depend on the unit of the signals.
        scale = np.abs(xdawn.filters_ @ X.mean(axis=0)).max() + _TINY
        return {"filters": xdawn.filters_ / scale, "responses": xdawn.evokeds_ / scale}

    def blocks(self, X, arrays):
        """Return the features as one array."""
        filtered = arrays["filters"] @ X
        responses = np.broadcast_to(arrays["responses"], (len(X), *arrays["responses"].shape))
        return [shrunk_covariances(np.concatenate([responses, filtered], axis=1))]

    def rescale(self, centres, log_gain):
        """Return centres after a gain, which the classes' responses do not have."""
        gains = np.repeat([1.0, np.exp(log_gain)], len(centres[0]) // 2)
        return [gains[:, None] * centre * gains for centre in centres]


class WaveformFeatures(XdawnFeatures):
    """Trials after xDAWN's spatial filters, averaged in consecutive windows."""

    supervised = True

    def __init__(self, n_filters=4, windows=16, **unused):
        self.n_filters = n_filters
        self.windows = windows

    def blocks(self, X, arrays):
        """Return the features as one array."""
        filtered = arrays["filters"] @ X
        means, _ = _window_means(filtered, self.windows, 1)
        return [np.swapaxes(means, 1, 2).reshape(len(X), -1)]

    def rescale(self, centres, log_gain):
        """Return centres after a gain."""
        return [np.exp(log_gain) * centre for centre in centres]


def _window_means(X, windows, shortest):
    """Return the means of consecutive windows of at least so many samples, and their lengths, as ``array_split``."""
    windows = max(1, min(windows, X.shape[-1] // shortest))
    lengths = np.full(windows, X.shape[-1] // windows)
    lengths[: X.shape[-1] % windows] += 1
    return np.add.reduceat(X, np.cumsum(lengths) - lengths, axis=-1) / lengths, lengths


def _window_variances(X, windows):
    means, lengths = _window_means(X, windows, 2)
    return _window_means((X - means.repeat(lengths, axis=-1)) ** 2, windows, 2)[0]


def _band_pass(X, low, high):
    n_times = X.shape[-1]
    return X @ _filter_matrix(low, high, n_times) if n_times <= _SHORT else _filter(X, low, high)


@lru_cache(maxsize=64)
def _filter_matrix(low, high, n_times):
    """Return the filter as a matrix, which is several times faster for trials that are short."""
    return _filter(np.eye(n_times), low, high)


def _filter(X, low, high):
    """Return ``sosfiltfilt`` of the signals, whose states of rest take several times longer to find than to use."""
    sections, rest = _design(low, high)
    n_pad = min(3 * 2 * len(sections), X.shape[-1] - 1)
    start, end = 2 * X[..., :1] - X[..., n_pad:0:-1], 2 * X[..., -1:] - X[..., -2 : -n_pad - 2 : -1]
    X = np.concatenate([start, X, end], axis=-1)
    rest = rest.reshape(len(sections), *[1] * (X.ndim - 1), 2)
    for _ in range(2):  # Forwards, then backwards.
        X = sosfilt(sections, X, zi=rest * X[..., :1])[0][..., ::-1]
    return X[..., n_pad : X.shape[-1] - n_pad]


@lru_cache(maxsize=64)
def _design(low, high):
    sections = butter(4, [2 * low, 2 * high], "bandpass", output="sos")
    return sections, sosfilt_zi(sections)


#: Name -> class of features.
FEATURES = {
    "covariance": CovarianceFeatures,
    "hjorth": HjorthFeatures,
    "hjorth-covariance": HjorthCovarianceFeatures,
    "power": PowerFeatures,
    "waveform": WaveformFeatures,
    "xdawn": XdawnFeatures,
}
