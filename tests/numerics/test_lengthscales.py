"""Adaptive length scales equal their definitions."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.manifold._utils import _binary_search_perplexity

from braindecode_censor.numerics.kernels import make_kernel, squared_distances
from braindecode_censor.numerics.lengthscales import MedianScale, TSNEScale


def cloud(n, d=3, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("n", [2, 3, 4, 9, 40])
def test_median_is_over_distinct_pairs(n):
    x = cloud(n)
    precision = MedianScale().precision(squared_distances(x))
    assert float(precision) == pytest.approx(np.median(pdist(x)) ** -2, rel=1e-9)


def sklearn_conditional(x, perplexity):
    """P(j | i) by scikit-learn's own search; its distances are single precision."""
    d2 = squared_distances(x).numpy()
    n = len(d2)
    off_diagonal = ~np.eye(n, dtype=bool)
    neighbours = d2[off_diagonal].reshape(n, n - 1).astype(np.float32)
    p = _binary_search_perplexity(neighbours, perplexity, 0)
    full = np.zeros((n, n))
    full[off_diagonal] = np.asarray(p).ravel()
    return full


def our_conditional(x, scale):
    d2 = squared_distances(x)
    beta = scale.inverse_scales(d2)
    p = torch.exp(-beta[:, None] * (d2 - d2.min()))
    p = p * (1 - torch.eye(len(x), dtype=p.dtype))
    return (p / p.sum(1, keepdim=True)).numpy()


@pytest.mark.parametrize("relative", [0.3, 0.95])
@pytest.mark.parametrize("n", [4, 6, 10, 64])
def test_tsne_scale_equals_scikit_learn(n, relative):
    x = cloud(n)
    perplexity = min(max(relative * (n - 1), 2), n - 1.01)
    p = our_conditional(x, TSNEScale(relative))
    np.testing.assert_allclose(p, sklearn_conditional(x, perplexity), atol=1e-4)
    entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(1)
    np.testing.assert_allclose(np.exp(entropy), perplexity, rtol=1e-4)


def test_tsne_scale_with_duplicate_points():
    x = cloud(12)
    x[5] = x[2]
    x[6] = x[2]
    scale = TSNEScale(0.6)  # perplexity 6.6, above the two duplicates
    np.testing.assert_allclose(our_conditional(x, scale), sklearn_conditional(x, 6.6), atol=1e-4)


@pytest.mark.parametrize("x", [torch.zeros(8, 2), torch.eye(3), cloud(2), cloud(3), cloud(1)], ids=repr)
def test_tsne_scale_that_cannot_be_attained_stays_finite(x):
    precision = TSNEScale().precision(squared_distances(x.double()))
    assert torch.isfinite(precision).all()
    assert (precision > 0).all()


def test_tsne_kernel_is_not_positive_semi_definite():
    """The paper calls it valid. Two clusters of very different width show that it is not."""
    x = torch.cat([0.1 * cloud(32, 2), 3 * cloud(32, 2, seed=1)])
    d2 = squared_distances(x)
    gram = make_kernel("rbf")(d2, TSNEScale(30 / 63).precision(d2))
    assert torch.linalg.eigvalsh(gram).min() < -1e-3
