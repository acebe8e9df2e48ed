"""Centres of subjects, and differences of trials from them.

Covariance matrices have Riemannian means, geodesics and tangent vectors; vectors have their means, straight lines and
differences. Training subjects and target subjects are treated alike.
"""

import warnings

import numpy as np
from pyriemann.geometry.base import invsqrtm, logm
from pyriemann.geometry.geodesic import geodesic_riemann
from pyriemann.geometry.mean import mean_riemann
from pyriemann.geometry.tangentspace import upper

__all__ = ["between", "difference", "mean"]

_STEPS = 3  # of the iteration for a Riemannian mean; the third changes hundredths


def mean(features):
    """Return the centre of trials."""
    if features.ndim == 2:
        return features.mean(axis=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Convergence not reached")
        return mean_riemann(features, maxiter=_STEPS, init=features.mean(axis=0))


def between(first, second, fraction):
    """Return the point at a fraction of the way from one centre to another."""
    if first.ndim == 1:
        return (1 - fraction) * first + fraction * second
    return geodesic_riemann(first, second, fraction)


def difference(features, centre):
    """Return the differences of trials from a centre."""
    if centre.ndim == 1:
        return features - centre
    whitening = invsqrtm(centre)
    white = whitening @ features @ whitening
    return upper(logm((white + np.swapaxes(white, -1, -2)) / 2))
