"""Score estimators: values computed by hand, and identities."""

import math

import numpy as np
import pytest
import torch

from braindecode_censor.numerics.kernels import CurlFreeKernel, imq, rbf
from braindecode_censor.numerics.scores import SCORES, make_score

TWO = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
THREE = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
PUBLISHED_CURL_FREE = CurlFreeKernel(rbf, normalised=False)  # without the factor sigma^2
K = math.exp(-0.5)

TWO_POINTS = [
    ("tikhonov", {"reg": 0.01}, 1.4669301944),
    ("stein", {"reg": 0.01}, 1.3992469671),
    ("ssge", {"n_eigen": 2}, 1.5414940825),
    ("ssge", {"n_eigen": 1}, 0.0),
    ("nu", {"n_steps": 1}, 0.6 * K),
    ("nu", {"n_steps": 2}, 0.83407693),
    ("nu", {"n_steps": 3}, 1.26851871),
    ("nu", {"n_steps": 10}, 1.50664694),
    ("tikhonov", {"reg": 0.01, "kernel": "curlfree-rbf"}, 1.1892758),
    ("tikhonov", {"reg": 0.01, "kernel": "curlfree-imq"}, 0.22156601),
    ("tikhonov", {"reg": 0.01, "kernel": "imq"}, 1.12994903),
]


@pytest.mark.parametrize(("name", "options", "value"), TWO_POINTS)
def test_two_points(name, options, value):
    scores = make_score(name, lengthscale=1.0, **options).fit(TWO).at_samples()
    np.testing.assert_allclose(scores[:, 0], [value, -value], atol=1e-6)


@pytest.mark.parametrize(("name", "value"), [("tikhonov", 0.46604499), ("stein", -0.07776104)])
def test_out_of_sample(name, value):
    score = make_score(name, reg=0.01, lengthscale=1.0).fit(TWO)
    assert float(score(torch.tensor([[0.25]], dtype=torch.float64))) == pytest.approx(value, abs=1e-6)


THREE_POINTS = [
    ("tikhonov", {"reg": 0.01}, [[1.821483, 0.692286], [-1.911952, 0.042771], [0.026092, -0.92887]]),
    ("nu", {"n_steps": 5}, [[1.381909, 0.63449], [-1.521737, 0.179502], [0.114134, -1.032445]]),
    (
        "tikhonov",
        {"reg": 0.01, "kernel": PUBLISHED_CURL_FREE},
        [[2.164366, 0.683592], [-2.168966, -0.08445], [-0.19514, -0.46899]],
    ),
    (
        "nu",
        {"n_steps": 5, "kernel": PUBLISHED_CURL_FREE},
        [[1.798754, 0.481636], [-1.849569, -0.019593], [-0.000948, -0.858498]],
    ),
    ("ssge", {"n_eigen": 3}, [[2.112501, 0.765313], [-2.19375, 0], [0, -0.972679]]),
    ("stein", {"reg": 0.01}, [[1.425203, 0.588003], [-1.525003, 0.094415], [0.057257, -0.854005]]),
]


@pytest.mark.parametrize(("name", "options", "value"), THREE_POINTS)
def test_three_points(name, options, value):
    scores = make_score(name, lengthscale=1.5, **options).fit(THREE).at_samples()
    np.testing.assert_allclose(scores, value, atol=1e-6)


@pytest.mark.parametrize("profile", [rbf, imq])
def test_kernel_derivatives_by_finite_differences(profile):
    """psi', psi'', psi''' and both divergences, from the kernels' definitions alone."""
    s = torch.linspace(0.1, 4, 7, dtype=torch.float64, requires_grad=True)
    p = torch.tensor(0.7, dtype=torch.float64)
    derivatives = profile(s, p)
    for value, derivative in zip(derivatives[:-1], derivatives[1:]):
        (expected,) = torch.autograd.grad(value.sum(), s, retain_graph=True, create_graph=True)
        torch.testing.assert_close(derivative, expected)
    x, y = torch.randn(2, 1, 3, dtype=torch.float64)
    y.requires_grad_()
    for kernel in (CurlFreeKernel(profile), CurlFreeKernel(profile, normalised=False)):

        def block(y, kernel=kernel):
            d2 = ((x - y) ** 2).sum(-1, keepdim=True)
            return kernel.operator(x, y, d2, p, torch.ones_like(d2))[2]()

        jacobian = torch.autograd.functional.jacobian(block, y)  # (3, 3, 1, 3)
        divergence = torch.einsum("abb->a", jacobian[:, :, 0])
        d2 = ((x - y) ** 2).sum(-1, keepdim=True)
        actual = kernel.operator(x, y, d2, p, torch.ones_like(d2))[1]
        torch.testing.assert_close(actual[0].detach(), divergence)


def sample(n=40, d=3, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_stein_is_tikhonov_with_m_times_the_regularisation():
    x = sample()
    stein = make_score("stein", reg=1e-4).fit(x).at_samples()
    torch.testing.assert_close(stein, make_score("tikhonov", reg=len(x) * 1e-4).fit(x).at_samples())
    same_ridge = make_score("stein", reg=1e-2, ridge="M").fit(x).at_samples()
    torch.testing.assert_close(same_ridge, make_score("tikhonov", reg=1e-2).fit(x).at_samples())
    raw = make_score("stein", reg=0.4, ridge="raw").fit(x).at_samples()
    torch.testing.assert_close(raw, make_score("tikhonov", reg=0.4 / len(x)).fit(x).at_samples())


@pytest.mark.parametrize("name", ["tikhonov", "nu", "ssge"])
def test_stein_alone_differs_at_a_training_point(name):
    """The query is one more point for Stein; the other estimators are functions of x."""
    x = sample()
    score = make_score(name).fit(x)
    torch.testing.assert_close(score(x), score.at_samples(), rtol=1e-6, atol=1e-6)
    stein = make_score("stein", reg=1e-4).fit(x)
    assert (stein(x) - stein.at_samples()).abs().max() > 1e-3


def test_ssge_is_the_spectral_cut_off():
    """The published form in eigenfunctions, against the projection on leading eigenvectors."""
    x = sample()
    n, n_eigen, sigma = len(x), 6, 1.7
    score = make_score("ssge", n_eigen=n_eigen, lengthscale=sigma).fit(x)
    difference = x[:, None] - x[None]
    gram = torch.exp(-(difference**2).sum(-1) / (2 * sigma**2))
    values, vectors = torch.linalg.eigh(gram)
    values, vectors = values.flip(0)[:n_eigen], vectors.flip(1)[:, :n_eigen]
    mean_gradient = (-difference / sigma**2 * gram[..., None]).mean(0)  # over m of grad_{x_m} k(x_m, x_l)
    beta = -math.sqrt(n) / values[:, None] * (vectors.T @ mean_gradient)
    eigenfunctions = math.sqrt(n) / values * (gram @ vectors)
    torch.testing.assert_close(score.at_samples(), eigenfunctions @ beta)


def test_ssge_keeps_one_eigenvector_when_the_first_exceeds_the_ratio():
    x = 1e-3 * sample()
    scores = make_score("ssge", ratio=0.5, lengthscale=10.0).fit(x).at_samples()
    assert scores.abs().max() < 1


KERNELS = {"ssge": ["rbf", "imq"], "mige": ["rbf"], "stein": ["rbf", "imq"]}
COMBINATIONS = [
    (name, kernel)
    for name in SCORES
    for kernel in KERNELS.get(name, ["rbf", "imq", "curlfree-rbf", "curlfree-imq"])
]


@pytest.mark.parametrize("lengthscale", ["median", "tsne"])
@pytest.mark.parametrize(("name", "kernel"), COMBINATIONS)
def test_equivariance(name, kernel, lengthscale):
    """s(cX + b) = s(X) / c, and s(XQ) = s(X) Q for a rotation Q."""
    x = sample(d=3)
    make = make_score(name, kernel=kernel, lengthscale=lengthscale)
    scores = make.fit(x).at_samples()
    close = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(make.fit(0.05 * x + 3).at_samples(), scores / 0.05, **close)
    rotation = torch.linalg.qr(sample(3)).Q
    torch.testing.assert_close(make.fit(x @ rotation).at_samples(), scores @ rotation, **close)


def test_published_curl_free_kernel_explodes_on_a_small_latent_and_ours_does_not():
    x = 0.2 * sample(64, 4)
    published = make_score("nu", reg=1e-3, kernel=PUBLISHED_CURL_FREE).fit(x).at_samples()
    ours = make_score("nu", reg=1e-3, kernel="curlfree-rbf").fit(x).at_samples()
    assert published.abs().max() > 1e6
    assert ours.abs().max() < 100


def test_curl_free_field_has_a_symmetric_jacobian():
    """Differences of the field, since queries carry no gradient."""
    x, step = sample(30, 3), 1e-5
    score = make_score("nu", reg=1e-3, kernel="curlfree-imq").fit(x)
    point = torch.tensor([[0.3, -0.2, 0.5]], dtype=torch.float64)
    eye = step * torch.eye(3, dtype=torch.float64)
    jacobian = (score(point + eye) - score(point - eye)) / (2 * step)
    torch.testing.assert_close(jacobian, jacobian.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lengthscale", ["median", "tsne", 1.3])
@pytest.mark.parametrize(("name", "kernel"), COMBINATIONS)
def test_one_fit_of_all_groups_equals_one_fit_per_group(name, kernel, lengthscale):
    x = sample(37, 3) * torch.linspace(0.5, 2, 37, dtype=torch.float64)[:, None]
    groups = torch.randint(0, 4, (37,), generator=torch.Generator().manual_seed(3))
    groups[-1] = 9  # a group of one
    score = make_score(name, kernel=kernel, lengthscale=lengthscale)
    together = score.fit(x, groups[:, None] == groups[None, :]).at_samples()
    for group in range(4):
        single = score.fit(x[groups == group]).at_samples()
        torch.testing.assert_close(together[groups == group], single, rtol=1e-7, atol=1e-7)
    assert torch.isfinite(together).all()


@pytest.mark.parametrize("name", list(SCORES))
def test_a_sample_in_no_group_gets_no_score_and_changes_nothing(name):
    x = sample(12, 2)
    same = torch.ones(12, 12, dtype=torch.bool)
    same[3] = same[:, 3] = False
    scores = make_score(name).fit(x, same).at_samples()
    remaining = torch.arange(12) != 3
    assert scores[3].abs().max() < 1e-12
    torch.testing.assert_close(
        scores[remaining], make_score(name).fit(x[remaining]).at_samples(), rtol=1e-7, atol=1e-7
    )


@pytest.mark.parametrize("name", list(SCORES))
def test_single_precision_is_close_to_double(name):
    x = sample(96, 8)
    double = make_score(name).fit(x).at_samples()
    single = make_score(name).fit(x.float()).at_samples()
    assert single.dtype == torch.float32
    assert (single - double).norm() < 2e-3 * double.norm()
