"""Centres of people, and trials as seen from there: what is subtracted so that people become comparable.

Covariance matrices have the Riemannian mean for a centre, geodesics between centres, and tangent vectors for
differences; vectors have their mean, straight lines and plain differences. The same kind of mean is used on both sides,
for the people of the training and for the new one.
"""

import warnings

import numpy as np
from pyriemann.geometry.base import invsqrtm, logm
from pyriemann.geometry.geodesic import geodesic_riemann
from pyriemann.geometry.mean import mean_riemann
from pyriemann.geometry.tangentspace import upper

__all__ = ["between", "difference", "mean"]

_STEPS = 3  # towards a Riemannian mean; the third changes hundredths


def mean(features):
    """Return the centre of some trials."""
    if features.ndim == 2:
        return features.mean(axis=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Convergence not reached")
        return mean_riemann(features, maxiter=_STEPS, init=features.mean(axis=0))


def between(first, second, share):
    """Return a point on the way from one centre to another."""
    if first.ndim == 1:
        return (1 - share) * first + share * second
    return geodesic_riemann(first, second, share)


def difference(features, centre):
    """Return trials as seen from a centre."""
    if centre.ndim == 1:
        return features - centre
    white = invsqrtm(centre)
    seen = white @ features @ white
    return upper(logm((seen + np.swapaxes(seen, -1, -2)) / 2))
