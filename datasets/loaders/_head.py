"""A spherical head: electrode positions and the potential of current dipoles, in closed form."""

from functools import cache

import numpy as np

from braindecode_censor.datasets._raw import standard_montage

RADIUS = 0.09  # metres
CONDUCTIVITY = 0.33  # siemens per metre
# Ary, Klein and Fender (1981): a dipole in a head with skull and scalp has, on the surface, the potential of a
# dipole at about 0.6 of its eccentricity in a homogeneous sphere.
ECCENTRICITY = 0.6
_CENTRE = np.array([0.0, 0.0, 0.04])  # of MNE's standard head, so that the ears lie below the equator
_NAMES = (
    "Fp1 Fp2 F3 Fz F4 T7 C3 Cz C4 T8 P3 Pz P4 O1 Oz O2 F7 F8 P7 P8 FC1 FC2 CP1 CP2 FC5 FC6 CP5 CP6 "
    "PO3 PO4 AF3 AF4 FCz CPz POz AFz C1 C2 C5 C6 F1 F2 F5 F6 P1 P2 P5 P6 FC3 FC4 CP3 CP4 PO7 PO8 FT7 FT8 "
    "TP7 TP8 AF7 AF8"
)
EEG_NAMES = _NAMES.split()


@cache
def electrode_positions(n_chans):
    """Return the first ``n_chans`` electrodes of the 10-10 system on the sphere."""
    montage = standard_montage().get_positions()["ch_pos"]
    points = np.array([montage[name] for name in EEG_NAMES[:n_chans]]) - _CENTRE
    return RADIUS * points / np.linalg.norm(points, axis=1, keepdims=True)


def leadfield(electrodes, dipoles):
    r"""Return the surface potential of unit dipoles in a homogeneous conducting sphere.

    With :math:`d = r - r_0` and :math:`F = |d| (|r||d| + |r|^2 - r_0 \cdot r)`,

    .. math::
        V = q \cdot [(c_1 - c_2\, r \cdot r_0)\, r_0 + c_2 |r_0|^2 r],\quad
        c_1 = \frac{2 d \cdot r_0 / |d|^3 + 1/|d| - 1/|r|}{4\pi\sigma|r_0|^2},\quad
        c_2 = \frac{2/|d|^3 + (|d|+|r|)/(|r| F)}{4\pi\sigma|r_0|^2}

    Notes
    -----
    Agrees with MNE's sphere model to rounding (tested). This closed form takes microseconds, MNE's a tenth of a
    second, and every simulated subject needs one.

    References
    ----------
    Mosher, Leahy and Lewis (1999), IEEE Trans. Biomed. Eng. 46(3).
    """
    d = electrodes[:, None] - dipoles[None]
    nd, nr = np.linalg.norm(d, axis=-1), np.linalg.norm(electrodes, axis=-1)[:, None]
    dot, r0sq = electrodes @ dipoles.T, (dipoles**2).sum(-1)[None]
    scale = 4 * np.pi * CONDUCTIVITY * r0sq
    c1 = (2 * (d * dipoles[None]).sum(-1) / nd**3 + 1 / nd - 1 / nr) / scale
    c2 = (2 / nd**3 + (nd + nr) / (nr * nd * (nr * nd + nr**2 - dot))) / scale
    field = (c1 - c2 * dot)[..., None] * dipoles[None] + (c2 * r0sq)[..., None] * electrodes[:, None]
    return field - field.mean(axis=0)
