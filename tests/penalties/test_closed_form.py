"""Answers that are known in closed form."""

import math

import numpy as np
import pytest
import torch
from cases import information, two_subjects, value_and_gradient

import braindecode_censor as bc
from braindecode_censor.numerics.kernels import make_kernel, squared_distances
from braindecode_censor.numerics.lengthscales import MedianScale
from braindecode_censor.numerics.scores import make_score
from braindecode_censor.penalties.penalty import DegenerateBatchWarning


@pytest.mark.slow
def test_score_estimators_rank_as_published_in_high_dimension():
    """Mixture of d unit normals at random vertices of the cube, best setting of each; published errors per
    dimension at d = 16: 0.063 / 0.118 / 0.127 / 0.138 / 0.182.
    """
    d, errors = 16, {}
    families = {
        "curl-free nu": [("nu", {"reg": r, "kernel": "curlfree-imq"}) for r in (0.1, 0.03, 0.01, 1e-3)],
        "nu": [("nu", {"reg": r, "kernel": "imq"}) for r in (1e-3, 1e-4, 1e-5)],
        "tikhonov": [("tikhonov", {"reg": r, "kernel": "imq"}) for r in (1e-2, 1e-3, 1e-4, 1e-5)],
        "stein": [("stein", {"reg": r, "kernel": "imq"}) for r in (1e-4, 1e-5, 1e-6, 1e-7)],
        "ssge": [("ssge", {"ratio": r}) for r in (0.9, 0.95, 0.99)],
    }
    for family, settings in families.items():
        best = math.inf
        for kind, options in settings:
            for factor in (1, 2, 4):
                score = make_score(kind, lengthscale=MedianScale(factor), **options)
                best = min(best, np.mean([_toy_error(score, d, seed) for seed in range(3)]))
        errors[family] = best
    assert errors["curl-free nu"] < errors["nu"] < errors["tikhonov"] < errors["stein"] < errors["ssge"]
    assert errors["curl-free nu"] == pytest.approx(0.063, abs=0.03)
    assert errors["ssge"] == pytest.approx(0.182, abs=0.06)


def _toy_error(score, d, seed):
    generator = torch.Generator().manual_seed(seed)
    vertices = torch.randint(0, 2, (d, d), generator=generator).double()

    def draw(n):
        which = torch.randint(0, d, (n,), generator=generator)
        return vertices[which] + torch.randn(n, d, generator=generator, dtype=torch.float64)

    x, query = draw(128), draw(512)
    difference = query[:, None] - vertices
    responsibility = (-0.5 * difference.square().sum(-1)).softmax(-1)
    exact = -(responsibility[..., None] * difference).sum(1)
    return float(((score.fit(x)(query) - exact) ** 2).mean())


@pytest.mark.parametrize(("d", "published"), [(8, 0.059), (16, 0.116), (32, 0.280)])
def test_mige_of_correlated_gaussians(d, published):
    """Y = rho X + sqrt(1 - rho^2) eps: dI/drho = d rho / (1 - rho^2), 16 correlations, 256 samples, SSGE 0.99."""
    generator = torch.Generator().manual_seed(d)
    estimates, exact = [], []
    for rho in np.linspace(-0.8, 0.8, 16):
        x, noise = torch.randn(2, 256, d, generator=generator)
        y = rho * x + math.sqrt(1 - rho**2) * noise
        dy = x - rho / math.sqrt(1 - rho**2) * noise
        score = make_score("mige")
        joint = score.fit(torch.cat([x, y], 1)).at_samples()[:, d:]
        estimates.append(float(((joint - score.fit(y).at_samples()) * dy).sum(1).mean()))
        exact.append(d * rho / (1 - rho**2))
    estimates, exact = np.array(estimates), np.array(exact)
    relative = np.sqrt(np.mean((estimates - exact) ** 2) / np.mean(exact**2))
    assert relative == pytest.approx(published, abs=0.03)


def slope_along(penalty, z, direction, *labels):
    return float((value_and_gradient(lambda z: penalty(z, *labels), z)[1] * direction).sum())


def mean_slope(penalty, a, seeds=10):
    slopes = []
    for seed in range(seeds):
        z, s, direction = two_subjects(a, seed)
        slopes.append(slope_along(penalty, z, direction, s))
    return np.mean(slopes)


DISCRETE_ESTIMATORS = {  # options and the relative error that is expected of them
    "curl-free nu 1e-3": ({"score": "nu", "reg": 1e-3, "kernel": "curlfree-imq"}, 0.019),
    "nu 1e-4": ({"score": "nu", "reg": 1e-4}, 0.06),
    "tikhonov 1e-4": ({"score": "tikhonov", "reg": 1e-4}, 0.06),
    "ssge 0.99": ({"score": "mige"}, 0.089),
    "tikhonov 1e-3": ({"score": "tikhonov", "reg": 1e-3}, 0.107),
    "ssge 0.95": ({"score": "ssge", "ratio": 0.95}, 0.24),
    "stein 1e-4": ({"score": "stein", "reg": 1e-4}, 0.22),
    "stein 1e-3": ({"score": "stein", "reg": 1e-3}, 0.68),
}


@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize("name", DISCRETE_ESTIMATORS)
def test_mige_of_two_subjects(name, calibrate):
    options, stated = DISCRETE_ESTIMATORS[name]
    penalty = bc.make_penalty("mige", n_subjects=2, calibrate=calibrate, **options)
    amplitudes = (0.5, 1.0, 1.5)
    slopes = np.array([mean_slope(penalty, a) for a in amplitudes])
    exact = np.array([information(a)[1] for a in amplitudes])
    assert (slopes > 0).all()
    assert np.sqrt(np.mean((slopes - exact) ** 2) / np.mean(exact**2)) < stated + 0.02


@pytest.mark.parametrize("name", DISCRETE_ESTIMATORS)
def test_mige_of_independent_labels_has_no_gradient(name):
    """In unequal shares; also along z itself, where unequal shrinkage of the two fits would scale the code."""
    penalty = bc.make_penalty("mige", n_subjects=2, **DISCRETE_ESTIMATORS[name][0])
    along, scale = [], []
    for seed in range(16):
        z, _, _ = two_subjects(0.0, seed)
        s = (torch.arange(len(z)) % 4 == 0).long()
        direction = (s[:, None] - 0.25) * torch.full((4,), 0.5, dtype=torch.float64)
        along.append(slope_along(penalty, z, direction, s))
        scale.append(slope_along(penalty, z, z, s))
    assert abs(np.mean(along)) < 3.5 * np.std(along) / math.sqrt(len(along))
    assert abs(np.mean(along)) < 0.05 * information(1.0)[1]
    if DISCRETE_ESTIMATORS[name][1] < 0.1:
        assert abs(np.mean(scale)) < 0.05 * 4  # each term alone is 4, the number of columns


def gradient_of(penalty, z, s):
    return value_and_gradient(lambda z: penalty(z, s), z)[1].flatten()


def cosine(a, b):
    return float(torch.nn.functional.cosine_similarity(a, b, dim=0))


@pytest.mark.parametrize("score", ["mige", "ssge", "stein", "tikhonov", "nu"])
def test_only_a_calibrated_gradient_depends_on_who_is_who_in_many_features(score):
    """Four trials of a subject in 300 features: much of the plain gradient, or all, is there with wrong labels, too."""
    generator = torch.Generator().manual_seed(0)
    s = torch.arange(64) % 16
    means = torch.randn(16, 300, generator=generator)[s]
    z = means + torch.randn(64, 300, generator=generator)
    wrong = s[torch.randperm(64, generator=generator)]
    plain = bc.make_penalty("mige", n_subjects=16, score=score)
    assert cosine(gradient_of(plain, z, s), gradient_of(plain, z, wrong)) > 0.3
    shrinkage = plain.diagnostics(z, s)["scale_force"]
    penalty = bc.make_penalty("mige", n_subjects=16, score=score, calibrate=True)
    right = gradient_of(penalty, z, s)
    assert abs(cosine(right, gradient_of(penalty, z, wrong))) < 0.25
    assert abs(cosine(right, (z - z.mean(0)).flatten())) < 0.1  # nothing scales the code
    assert cosine(right, means.flatten()) > 0.2  # downhill, subjects lose their means
    assert abs(penalty.diagnostics(z, s)["scale_force"]) < 0.5 * abs(shrinkage)


@pytest.mark.parametrize("score", ["mige", "stein", "tikhonov", "nu"])
def test_calibrated_wrong_labels_say_nothing_on_average(score):
    """Subjects drawn by lot: known answer zero, whatever the estimator's shrinkage."""
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(48, 20, generator=generator, dtype=torch.float64)
    penalty = bc.make_penalty("mige", n_subjects=12, score=score, calibrate=True)
    orders = [torch.randperm(48, generator=generator) for _ in range(100)]
    gradients = [gradient_of(penalty, z[o], torch.arange(48) % 12).view_as(z)[o.argsort()] for o in orders]
    gradients = torch.stack(gradients).flatten(1)
    # The mean of n draws is smaller than one of them by the square root of n.
    assert gradients.mean(0).norm() < 1.2 * gradients.norm(dim=1).mean() / math.sqrt(len(gradients))


def test_two_trials_of_a_subject_are_too_few_for_calibrated_spectral_scores():
    z, s = torch.randn(16, 5, generator=torch.Generator().manual_seed(0)), torch.arange(16) % 8
    with pytest.warns(DegenerateBatchWarning, match="at least 3 trials.*fewer subjects in each"):
        assert not bc.make_penalty("mige", n_subjects=8, calibrate=True)(z, s)
    assert bc.make_penalty("mige", n_subjects=8, calibrate=True, score="nu")(z, s)


def test_conditional_information_vanishes_when_z_depends_on_y_only():
    """s and y correlated, z a function of y: I(z; s) > 0 but I(z; s | y) = 0."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(400) % 2
    flip = torch.rand(400, generator=generator) < 0.2
    s = torch.where(flip, 1 - y, y)
    direction = torch.full((4,), 0.5, dtype=torch.float64)
    z = 1.5 * (2 * y[:, None] - 1) * direction
    z = z + torch.randn(400, 4, generator=generator, dtype=torch.float64)
    along = (2 * s[:, None] - 1) * direction
    for method, options in (("mmd", {}), ("pairmmd", {}), ("mige", {"score": "nu", "reg": 1e-4})):
        slopes = {}
        for mode in ("marginal", "conditional"):
            penalty = bc.make_penalty(method, mode=mode, n_subjects=2, n_classes=2, **options)
            slopes[mode] = slope_along(penalty, z, along, s, y)
        assert slopes["marginal"] > 0
        assert abs(slopes["conditional"]) < 0.25 * slopes["marginal"], method


def of_each(penalty, z, s):
    return torch.func.vmap(penalty, in_dims=(0, None))(z, s).numpy()


def gaussian_mmd(m1, s1, m2, s2, sigma):
    eye = np.eye(len(m1))

    def mean_kernel(a, sa, b, sb):
        cov = sa + sb + sigma**2 * eye
        quadratic = (a - b) @ np.linalg.solve(cov, a - b)
        return sigma ** len(a) / math.sqrt(np.linalg.det(cov)) * math.exp(-0.5 * quadratic)

    return mean_kernel(m1, s1, m1, s1) + mean_kernel(m2, s2, m2, s2) - 2 * mean_kernel(m1, s1, m2, s2)


def test_mmd_of_two_gaussians():
    """Mean of 200 draws within three standard errors of the closed form, for both contrasts."""
    rng = np.random.default_rng(0)
    sigma, n, m = 1.3, 100, 150
    means = np.zeros(3), np.array([0.8, -0.3, 0.2])
    roots = np.diag([1.0, 0.6, 1.2]), np.array([[1.0, 0, 0], [0.4, 0.8, 0], [0, 0.2, 0.5]])
    truth = gaussian_mmd(means[0], roots[0] @ roots[0].T, means[1], roots[1] @ roots[1].T, sigma)
    s = torch.tensor([0] * n + [1] * m)
    pair = bc.make_penalty("pairmmd", n_subjects=2, lengthscale=sigma)
    versus = bc.make_penalty("mmd", n_subjects=2, lengthscale=sigma, reduction="sum")
    samples = [mean + rng.normal(size=(200, k, 3)) @ root.T for mean, root, k in zip(means, roots, (n, m))]
    z = torch.from_numpy(np.concatenate(samples, axis=1))
    values = np.stack([of_each(pair, z, s), of_each(versus, z, s)], axis=1)
    # population identity: MMD(q, q_m) = (1 - pi_m)^2 MMD(q_without_m, q_m)
    fractions = np.array([n, m]) / (n + m)
    expected = np.array([truth, ((1 - fractions) ** 2).sum() * truth])
    error = values.std(0, ddof=1) / math.sqrt(len(values))
    # The second identity holds up to O(1/N).
    assert (abs(values.mean(0) - expected) < 3 * error + [0, 2e-3 * truth]).all()


@pytest.mark.parametrize("method", ["mmd", "pairmmd"])
def test_mmd_has_mean_zero_under_independence(method):
    """Although the batch overlaps with its own subsets; with the printed self-pairs it does not."""
    s = torch.arange(30) % 3
    z = torch.randn(3000, 30, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values = of_each(bc.make_penalty(method, n_subjects=3, lengthscale=2.0), z, s)
    assert abs(values.mean()) < 3 * values.std() / math.sqrt(len(values))
    assert 0.4 < (values < 0).mean() < 0.75, "an unbiased estimate of zero is often negative"
    if method == "mmd":
        printed = of_each(bc.make_penalty("mmd", n_subjects=3, lengthscale=2.0, self_pairs=True), z, s)
        bias, error = np.mean(printed), np.std(printed) / math.sqrt(len(printed))
        gram = make_kernel("rbf")(squared_distances(z), torch.tensor(0.25))
        kappa = float((gram.sum((1, 2)) - 30).mean() / (30 * 29))
        assert bias == pytest.approx(-2 * (1 - kappa) / 30, abs=4 * error)
        assert abs(bias) > 10 * error


def continuous_data(rho, seed, n=300):
    """Z = rho s + noise in the first of two columns: I = -log(1 - r^2)/2 with the correlation r."""
    generator = torch.Generator().manual_seed(seed)
    s = torch.randn(n, generator=generator, dtype=torch.float64)
    z = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    direction = torch.stack([s, torch.zeros_like(s)], 1)
    return z + rho * direction, s, direction


@pytest.mark.parametrize(
    ("method", "options"), [("mmd", {}), ("mige", {"score": "nu", "reg": 1e-4}), ("mige", {"score": "mige"})]
)
def test_continuous_nuisance(method, options):
    penalty = bc.make_penalty(method, nuisance="continuous", **options)

    def slopes(rho):
        trials = [continuous_data(rho, seed) for seed in range(8)]
        return np.array([slope_along(penalty, z, direction, s) for z, s, direction in trials])

    dependent, independent = slopes(0.7), slopes(0.0)
    assert (dependent > 0).all()
    assert abs(independent.mean()) < 0.25 * dependent.mean()
    if method == "mige":  # dI/drho = rho / (1 + rho^2)
        assert dependent.mean() == pytest.approx(0.7 / (1 + 0.7**2), rel=0.15)


def test_continuous_mmd_has_mean_zero_under_independence():
    penalty = bc.make_penalty("mmd", nuisance="continuous")
    z = torch.randn(1500, 20, 3, generator=torch.Generator().manual_seed(0))
    s = torch.randn(1500, 20, generator=torch.Generator().manual_seed(1))
    values = torch.func.vmap(penalty)(z, s).numpy()
    assert abs(np.mean(values)) < 3.5 * np.std(values) / math.sqrt(len(values))
