"""Centres of subjects, and differences of trials from them.

Covariance matrices have Riemannian means, geodesics and tangent vectors; vectors have their means, straight lines and
differences. Training subjects and target subjects are treated alike.

pyRiemann is imported where it is used: it imports matplotlib, and takes longer than a decoder takes to load.
"""

import numpy as np

__all__ = ["between", "difference", "logarithm", "mean", "roots", "whiten"]

_STEPS = 3  # of the iteration for a Riemannian mean; the third changes hundredths


def mean(features):
    """Return the centre of trials."""
    if features.ndim == 2:
        return features.mean(axis=0)
    centre, step, smallest = features.mean(axis=0), 1.0, np.inf
    for _ in range(_STEPS):  # pyRiemann's mean_riemann, without its checks and its import
        root, inverse = roots(centre)
        tangent = logarithm(whiten(features, inverse)).mean(axis=0)
        values, axes = np.linalg.eigh(tangent)
        centre = root @ (axes * np.exp(step * values) @ axes.T) @ root
        size = step * np.linalg.norm(tangent)
        step, smallest = (0.95 * step, size) if size < smallest else (0.5 * step, smallest)
    return centre


def between(first, second, fraction):
    """Return the point at a fraction of the way from one centre to another."""
    if first.ndim == 1:
        return (1 - fraction) * first + fraction * second
    from pyriemann.geometry.geodesic import geodesic_riemann

    return geodesic_riemann(first, second, fraction)


def difference(features, centre):
    """Return the differences of trials from a centre."""
    if centre.ndim == 1:
        return features - centre
    from pyriemann.geometry.tangentspace import upper

    return upper(logarithm(whiten(features, roots(centre)[1])))


def whiten(matrices, inverse_root):
    """Return symmetric matrices in the coordinates of a centre."""
    white = inverse_root @ matrices @ inverse_root
    return (white + np.swapaxes(white, -1, -2)) / 2


def roots(matrices):
    """Return the square roots of matrices and their inverses, by one decomposition."""
    values, axes = np.linalg.eigh(matrices)
    scales = np.sqrt(values)[..., None, :]
    transposed = np.swapaxes(axes, -1, -2)
    return axes * scales @ transposed, axes / scales @ transposed


def logarithm(matrices):
    """Return the logarithms of matrices."""
    values, axes = np.linalg.eigh(matrices)
    return axes * np.log(values)[..., None, :] @ np.swapaxes(axes, -1, -2)
