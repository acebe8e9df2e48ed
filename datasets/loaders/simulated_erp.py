"""Event-related potentials of simulated subjects: Gaussian, so the Bayes-optimal accuracy is known.

A trial of class y (0 NonTarget, 1 Target) of one subject is

    x = gain * (visual + offset . habits + y * snr * (late + early) + noise)

*late* is a P300-like response of a parietal source, the same for all subjects up to cap rotation and latency.
*early* is an N1-like response of a source whose orientation, and so its polarity at the electrodes, turns
from subject to subject, as on folded cortex. *habits* are responses both classes share, each of a
size that differs between subjects. *noise* is pink in time and mixed in space from sixty background sources whose
power differs between subjects, plus electrode noise. Late transfers; early helps within a subject and
misleads across subjects once it turns by more than a right angle; habits and noise identify the subject.
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation
from scipy.stats import norm

from braindecode_censor.datasets._head import ECCENTRICITY, RADIUS, electrode_positions, leadfield

_BACKGROUND, _ELECTRODE = 8.0, 3.0  # microvolts
_N_BACKGROUND = 60
_LATE, _EARLY, _VISUAL = 10.0, 16.0, 4.0  # microvolts at the electrode that sees it best
# direction from the head's centre (right, front, up), peak and width in seconds
_SOURCES = {
    "late": ((0.0, -0.5, 0.8), 0.38, 0.07),
    "early": ((0.35, -0.75, 0.35), 0.20, 0.035),
    "visual": ((0.0, -0.95, 0.2), 0.11, 0.03),
}
# responses both classes share, of sizes that differ between subjects
_HABITS = (
    ((-0.5, -0.7, 0.3), 0.10, 0.04),
    ((0.7, 0.1, 0.6), 0.25, 0.06),
    ((-0.6, 0.4, 0.6), 0.30, 0.06),
    ((0.1, 0.8, 0.5), 0.50, 0.08),
    ((-0.8, -0.2, 0.4), 0.60, 0.08),
    ((0.5, -0.6, 0.6), 0.70, 0.08),
)


def draw_effects(design, rng):
    """Return one subject's standard normal draws, before they are scaled by the shift."""
    shapes = {"rotation": 3, "orientation": 1, "latency": 2, "gain": 1 + design.n_chans, "noise": 1}
    shapes |= {"power": _N_BACKGROUND, "offset": len(_HABITS)}
    return {name: rng.standard_normal(size) for name, size in shapes.items()}


def _unit(vector):
    return np.asarray(vector) / np.linalg.norm(vector)


def _bump(design, peak, width):
    """Return a Gaussian wave over the trial, shape (n_times,)."""
    times = np.arange(design.n_times) / design.sfreq
    return np.exp(-0.5 * ((times - peak) / width) ** 2)


def _background_sources():
    """Return positions and moments of the background, each of shape (n, 3); the same for all seeds."""
    rng = np.random.default_rng(20120415)
    directions = rng.standard_normal((_N_BACKGROUND, 3))
    directions[:, 2] = np.abs(directions[:, 2])
    depth = RADIUS * ECCENTRICITY * rng.uniform(0.4, 0.85, (_N_BACKGROUND, 1))
    moments = rng.standard_normal((_N_BACKGROUND, 3))
    return depth * directions / np.linalg.norm(directions, axis=1, keepdims=True), moments


def pink_spectrum(n_times, sfreq):
    """Return the 1/f power spectrum of unit variance, flat below one hertz, shape (n_times // 2 + 1,)."""
    power = 1 / np.maximum(np.fft.rfftfreq(n_times, 1 / sfreq), 1.0)
    return power * n_times / (_fold(n_times) @ power)


def _fold(n_times):
    """Return how often each frequency of rfft occurs in the full transform."""
    weights = np.full(n_times // 2 + 1, 2.0)
    weights[0] = 1.0
    if n_times % 2 == 0:
        weights[-1] = 1.0
    return weights


@dataclass
class ErpSubject:
    """One subject (in one session): means and covariance of the trials, in microvolts."""

    means: np.ndarray
    covariance: np.ndarray
    spectrum: np.ndarray

    def sample(self, y, rng):
        """Draw trials."""
        white = rng.standard_normal((len(y), *self.means.shape[1:]))
        pink = np.fft.irfft(np.fft.rfft(white) * np.sqrt(self.spectrum), n=white.shape[-1])
        return self.means[y] + np.linalg.cholesky(self.covariance) @ pink

    def log_likelihood(self, X):
        """Return the log density of each trial under each class, of shape (n_trials, n_classes)."""
        n_times = self.means.shape[-1]
        root = np.linalg.cholesky(np.linalg.inv(self.covariance)).T
        weight = _fold(n_times) / self.spectrum / n_times
        volume = -0.5 * n_times * np.linalg.slogdet(self.covariance)[1]
        residual = (root @ np.fft.rfft(X))[:, None] - root @ np.fft.rfft(self.means)
        return volume - 0.5 * np.einsum("nyct,nyct,t->ny", residual, residual.conj(), weight).real

    def energy(self, signal):
        """Return the squared norm of a signal seen through the inverse of the noise covariance."""
        waves, n_times = np.fft.rfft(signal), signal.shape[-1]
        power = (waves.conj() * np.linalg.solve(self.covariance, waves)).real.sum(axis=0)
        return float(_fold(n_times) @ (power / self.spectrum) / n_times)

    def bayes_accuracy(self):
        r"""Return the best possible accuracy at equal priors: :math:`\Phi(d'/2)`."""
        return float(norm.cdf(np.sqrt(self.energy(self.means[1] - self.means[0])) / 2))


def make_subject(design, draws):
    """Return the subject that scaled draws describe."""
    cap = electrode_positions(design.n_chans)
    electrodes = Rotation.from_rotvec(np.deg2rad(draws["rotation"])).apply(cap)
    gain = np.exp(draws["gain"][0] + draws["gain"][1:] / 3)[:, None]
    waves = _responses(design, cap, electrodes, draws)
    common = _VISUAL * waves["visual"] + np.einsum("h,hct->ct", draws["offset"], waves["habits"])
    target = design.snr * (_LATE * waves["late"] + _EARLY * waves["early"])
    covariance = gain * _noise_covariance(cap, electrodes, draws) * gain.T
    means = gain * np.stack([common, common + target])
    return ErpSubject(means, covariance, pink_spectrum(design.n_times, design.sfreq))


def _responses(design, cap, electrodes, draws):
    """Return the unit responses on the rotated cap, each of shape (n_chans, n_times)."""
    delay = dict(zip(("late", "early"), draws["latency"] * (1.0, 0.5)))
    turn = np.deg2rad(draws["orientation"][0])
    waves = {}
    for name, (direction, peak, width) in _SOURCES.items():
        wave = _bump(design, peak + delay.get(name, 0.0), width)
        angle = turn if name == "early" else None
        waves[name] = np.outer(_topography(cap, electrodes, direction, angle), wave)
    habits = [np.outer(_topography(cap, electrodes, d), _bump(design, p, w)) for d, p, w in _HABITS]
    return waves | {"habits": np.array(habits)}


def _topography(cap, electrodes, direction, angle=None):
    """Return the signal of a source at the electrodes, at most 1 on the average cap, shape (n_chans,).

    The source points outwards or, given an angle, lies in the tangent plane, turned by that angle.
    """
    radial = _unit(direction)
    average = moment = radial
    if angle is not None:
        average = _unit(np.cross(radial, (0.0, 0.0, 1.0)))
        moment = np.cos(angle) * average + np.sin(angle) * np.cross(radial, average)
    position = RADIUS * ECCENTRICITY * 0.8 * radial[None]
    strongest = np.abs(leadfield(cap, position)[:, 0] @ average).max()
    return leadfield(electrodes, position)[:, 0] @ moment / strongest


def _noise_covariance(cap, electrodes, draws):
    """Return the spatial covariance of background and electrode noise, shape (n_chans, n_chans)."""
    positions, moments = _background_sources()
    average = np.einsum("edk,dk->ed", leadfield(cap, positions), moments)
    mixing = np.einsum("edk,dk->ed", leadfield(electrodes, positions), moments) * np.exp(draws["power"] / 2)
    scale = _BACKGROUND**2 * np.exp(2 * draws["noise"]) / (average**2).sum(axis=1).mean()
    return scale * mixing @ mixing.T + _ELECTRODE**2 * np.eye(len(cap))
