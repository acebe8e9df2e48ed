"""Surface EMG of simulated subjects: gestures are patterns of muscle power seen by a ring of electrodes.

Every sample of a trial of gesture y is an independent Gaussian with covariance

    gain^2 * (snr * e(t)^2 * A diag(p_y) A' + noise^2 I)

with A the pick-up of six muscles by the electrodes of the armband, which the subject wears rotated, p_y the
power of each muscle, which varies between subjects, and e(t) the contraction, which sets in earlier or later.
The interference pattern is white up to half the sampling rate, as surface EMG (20 to 450 Hz) is at 200 Hz.
"""

from dataclasses import dataclass

import numpy as np

_N_MUSCLES = 6
_NOISE, _SIGNAL = 10.0, 15.0  # microvolts
_WIDTH = 35.0  # degrees over which a muscle's pick-up halves
_ONSET, _RISE = 0.2, 0.03  # seconds


def draw_effects(design, rng):
    """Return one subject's standard normal draws, before they are scaled by the shift."""
    shapes = {"rotation": 1, "activation": (design.n_classes, _N_MUSCLES), "latency": 1}
    shapes |= {"gain": 1 + design.n_chans, "noise": 1}
    return {name: rng.standard_normal(size) for name, size in shapes.items()}


@dataclass
class EmgSubject:
    """One subject (in one session)."""

    signal: np.ndarray
    noise: np.ndarray
    envelope: np.ndarray

    def _whitened(self):
        """Return W and m with W C_y(t) W' = diag(e(t)^2 m + 1), per class."""
        scale = 1 / np.sqrt(self.noise)
        power, basis = np.linalg.eigh(scale[:, None] * self.signal * scale)
        return basis.transpose(0, 2, 1) * scale, np.maximum(power, 0)

    def sample(self, y, rng):
        """Draw trials."""
        shape = (len(y), len(self.noise), len(self.envelope))
        power, basis = np.linalg.eigh(self.signal)
        root = basis * np.sqrt(np.maximum(power, 0))[:, None]
        muscles = root[y] @ rng.standard_normal(shape) * self.envelope
        return muscles + np.sqrt(self.noise)[:, None] * rng.standard_normal(shape)

    def log_likelihood(self, X):
        """Return the log density of each trial under each class, of shape (n_trials, n_classes)."""
        constant = -0.5 * len(self.envelope) * np.log(self.noise).sum()
        densities = np.empty((len(X), len(self.signal)))
        for c, (whiten, power) in enumerate(zip(*self._whitened())):
            variance = power[:, None] * self.envelope**2 + 1
            squares = ((whiten @ X) ** 2 / variance).sum((1, 2))
            densities[:, c] = constant - 0.5 * (squares + np.log(variance).sum())
        return densities

    def bayes_accuracy(self, n_draws=400):
        """Return the best possible balanced accuracy, estimated with the exact likelihood."""
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(len(self.signal)), n_draws)
        return float(np.mean(self.log_likelihood(self.sample(y, rng)).argmax(axis=1) == y))


def _gestures(n_classes):
    """Return the average muscle power of each gesture, shape (n_classes, n_muscles); no seed."""
    rng = np.random.default_rng(20190320)
    return np.exp(0.7 * rng.standard_normal((max(n_classes, 64), _N_MUSCLES)))[:n_classes]


def make_subject(design, draws):
    """Return the subject that scaled draws describe."""
    electrodes = np.arange(design.n_chans) * 360 / design.n_chans + draws["rotation"]
    muscles = (np.arange(_N_MUSCLES) + 0.5) * 360 / _N_MUSCLES
    angle = (electrodes[:, None] - muscles + 180) % 360 - 180
    pickup = 1 / (1 + (angle / _WIDTH) ** 2)
    gain = np.exp(draws["gain"][0] + draws["gain"][1:] / 3)
    power = design.snr * _gestures(design.n_classes) * np.exp(draws["activation"])
    signal = _SIGNAL**2 * np.einsum("em,cm,fm->cef", pickup, power, pickup) * np.outer(gain, gain)
    noise = (gain * _NOISE * np.exp(draws["noise"])) ** 2
    times = np.arange(design.n_times) / design.sfreq
    envelope = 1 / (1 + np.exp(-np.clip((times - _ONSET - draws["latency"]) / _RISE, -50, 50)))
    return EmgSubject(signal, noise, envelope)
