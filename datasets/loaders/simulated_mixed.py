"""Subjects who differ only by gain and mixing of their channels, which alignment can undo.

A trial of class y of one subject is

    x = M (snr * a_y w(t) + noise),        M = exp(S),

*a_y* is the class's topography; the topographies are orthogonal, the wave *w* and the noise (pink in time, white
between channels) are the same for all subjects. The symmetric matrix S differs between subjects: its diagonal holds
logarithms of gains (skin, amplifier), the other entries the mixing of channels (head geometry, shifted electrodes).
S = 0 makes all subjects alike.

M is invertible, so the best possible accuracy is the same for all subjects and has a closed form. Without any label,
the mean covariance of a subject's trials is nearly proportional to M M', so that whitening with it (Euclidean
alignment) undoes M; dividing each channel by its standard deviation undoes only the gains.
"""

import numpy as np
from scipy.integrate import quad
from scipy.linalg import expm, qr
from scipy.stats import norm

from braindecode_censor.datasets.simulated_erp import ErpSubject, pink_spectrum

_NOISE, _SIGNAL = 10.0, 30.0  # microvolts, of a channel's noise and of a topography's norm at the peak
_PEAK, _WIDTH = 0.35, 0.06  # seconds


def draw_effects(design, rng):
    """Return one subject's standard normal draws, before they are scaled by the shift."""
    n = design.n_chans
    return {"gain": rng.standard_normal(1 + n), "mixing": rng.standard_normal(n * (n - 1) // 2)}


class MixedSubject(ErpSubject):
    """One subject (in one session): means and covariance of the trials, in microvolts."""

    def bayes_accuracy(self):
        r"""Return the best possible accuracy at equal priors.

        Seen through the inverse of the noise covariance the K class means are orthogonal and have one norm d, as in
        orthogonal signalling, so it is :math:`\int \varphi(u) \Phi(u + d)^{K-1} du`.
        """
        d, exponent = np.sqrt(self.energy(self.means[0])), len(self.means) - 1
        return quad(lambda u: norm.pdf(u) * norm.cdf(u + d) ** exponent, -9, 9)[0]


def topographies(n_chans, n_classes):
    """Return the orthonormal topographies of the classes; the same for all seeds."""
    rng = np.random.default_rng(20111127)
    return qr(rng.standard_normal((n_chans, n_chans)))[0][:n_classes]


def mixing_matrix(design, draws):
    """Return the matrix M of a subject's gains and mixing."""
    S = np.zeros((design.n_chans, design.n_chans))
    S[np.triu_indices(design.n_chans, 1)] = draws["mixing"]
    return expm(S + S.T + np.diag(draws["gain"][0] + draws["gain"][1:]))


def make_subject(design, draws):
    """Return the subject that scaled draws describe."""
    M = mixing_matrix(design, draws)
    times = np.arange(design.n_times) / design.sfreq
    wave = design.snr * _SIGNAL * np.exp(-0.5 * ((times - _PEAK) / _WIDTH) ** 2)
    means = M @ (topographies(design.n_chans, design.n_classes)[:, :, None] * wave)
    spectrum = pink_spectrum(design.n_times, design.sfreq)
    return MixedSubject(means, _NOISE**2 * M @ M.T, spectrum)
