"""Further measures, scores, kernels and length scales, written for one code (n, d)."""

import pytest
import torch
from cases import make_batch, make_penalty, value_and_gradient

from braindecode_censor import make_penalty as make
from braindecode_censor.numerics.kernels import DiagonalKernel, rbf
from braindecode_censor.numerics.lengthscales import MedianScale
from braindecode_censor.numerics.scores import Stein, make_score
from braindecode_censor.penalties.measures import MEASURES, MMD, Measure
from braindecode_censor.penalties.options import (
    Choice,
    Range,
    estimator_arguments,
    is_wanted,
    options_of,
    search_space_of,
)


class Standardised(MMD):
    """Looks at one half of z at a time."""

    def censor(self, z, batch):
        assert z.ndim == 2
        return super().censor((z - z.mean(0)) / z.std(0), batch)


def test_a_subclass_sees_one_half_at_a_time():
    z, s, y = make_batch("balanced")
    measure = Standardised(n_features=3, n_subjects=4)
    both = make(measure, "complementary", n_features=6, n_subjects=4)(z, s, y)
    halves = [make(measure, n_features=3, n_subjects=4)(half, s, y) for half in (z[:, :3], z[:, 3:])]
    torch.testing.assert_close(both, halves[0] - halves[1])
    assert both.abs() > 1e-4


class Hundredfold(MMD):
    def reveal(self, z, batch):
        return -100 * self.censor(z, batch)


def test_a_further_reveal_sees_the_second_half_only():
    z, s, y = make_batch("balanced")
    censored, revealed = (make(MMD, n_subjects=4)(half, s, y) for half in z.chunk(2, 1))
    value = make(Hundredfold, "complementary", n_subjects=4, reveal=0.5)(z, s, y)
    torch.testing.assert_close(value, censored - 50 * revealed)


class Rowwise:
    """A length scale of each row: the kernel is not symmetric."""

    def precision(self, d2, same=None):
        return 1 / d2.mean(-1, keepdim=True)


class Halved(MedianScale):
    def precision(self, d2, same=None):
        assert d2.ndim == 2
        return 2 * super().precision(d2, same)


class Cauchy(DiagonalKernel):
    """A kernel that leaves its derivatives to autograd."""

    def __call__(self, d2, precision):
        return 1 / (1 + precision * d2)


class Constant:
    def __init__(self, value):
        self.value = value

    def precision(self, d2, same=None):
        return self.value


@pytest.mark.parametrize("mode", ["marginal", "complementary"])
@pytest.mark.parametrize(
    "options", [{"lengthscale": Rowwise()}, {"lengthscale": Halved()}, {"kernel": Cauchy(rbf)}]
)
def test_gradient_of_mmd_with_further_scales_and_kernels(options, mode):
    z, s, y = make_batch("unbalanced")
    penalty = make_penalty("mmd", mode, **options)
    _, gradient = value_and_gradient(lambda z: penalty(z, s, y), z)
    for measure, half in zip(penalty.measures, z.chunk(len(penalty.measures), 1)):  # scales are held constant
        measure.lengthscale = Constant(measure.lengthscale.precision(torch.cdist(half, half) ** 2))
    step = torch.zeros_like(z)
    for i, j in ((0, 0), (5, 4), (20, 2)):
        step.zero_()[i, j] = 1e-6
        slope = (penalty(z + step, s, y) - penalty(z - step, s, y)) / 2e-6
        torch.testing.assert_close(gradient[i, j], slope, rtol=1e-4, atol=1e-9)


class Rescaled(Stein):
    def fit(self, x, same=None):
        assert x.ndim == 2
        return super().fit(x / 2, same)


class Looking:
    """A score that derives from none of ours and reads values, which vmap does not allow."""

    def fit(self, x, same=None):
        self.score = make_score("stein").fit(x / 2, same)
        assert float(x.abs().max()) > 0
        return self

    def at_samples(self):
        return self.score.at_samples()


@pytest.mark.parametrize("mode", ["marginal", "conditional", "complementary"])
def test_further_scores_see_each_group(mode):
    """A score at half the scale says twice as much there; equal groups, which ours fit as a stack."""
    z, s, y = make_batch("balanced")
    expected = make_penalty("mige", mode, score="stein")(z / 2, s, y) * 2
    for score in (Rescaled(), Looking()):
        torch.testing.assert_close(make_penalty("mige", mode, score=score)(z, s, y), expected)


class Power(Measure):
    """Powers of the distances of subjects' means; its options are written here and nowhere else."""

    search_space = {  # noqa: RUF012
        "weight": Range(0.1, 2.0, log=True),
        "root": Choice((True, False)),
        "power": Range(1.0, 3.0, when=("root", (False,))),
    }

    def __init__(self, *sizes, root=False, power=2.0, **options):
        super().__init__(*sizes, **options)
        self.power = 0.5 if root else power

    def censor(self, z, batch):
        rows = (torch.arange(batch.n_subjects)[:, None] == batch.s).to(z.dtype)
        means = rows @ z / rows.sum(1, keepdim=True)
        return ((means - z.mean(0)) ** 2).sum(1).pow(self.power / 2).mean()


@pytest.fixture
def power():
    MEASURES["power"] = Power
    yield "power"
    del MEASURES["power"]


def test_options_of_a_further_measure_are_written_once(power):
    space = search_space_of(power)
    assert list(space) == ["mode", "weight", "root", "power"]
    assert space["weight"] == Range(0.1, 2.0, log=True)
    assert is_wanted(space["power"], {"root": False}) and not is_wanted(space["power"], {"root": True})
    options = options_of(power)
    assert options["power"].search == space["power"]
    assert options["power"].argument == "penalty__power"
    assert options["min_trials"].search is None
    entry = {"method": power, "mode": "marginal", "weight": 1.0, "power": 3.0}
    expected = {"penalty": power, "censoring": "marginal", "weight": 1.0, "penalty__power": 3.0}
    assert estimator_arguments(entry) == expected
    with pytest.raises(ValueError, match=r"'powr' is unknown.*Did you mean 'power'"):
        estimator_arguments({"method": power, "powr": 3.0})
    z, s, _ = make_batch("balanced")
    assert make_penalty(power, "marginal", power=1.0)(z, s) != make_penalty(power, "marginal")(z, s)
    with pytest.raises(ValueError, match=r"does not know powr=1.0.*Did you mean 'power'"):
        make_penalty(power, "marginal", powr=1.0)


@pytest.mark.parametrize("method", list(MEASURES))
def test_the_factory_accepts_every_value_of_the_search_space(method):
    space = search_space_of(method)
    for name, search in space.items():
        if name in ("mode", "weight"):
            continue
        for value in search.values if isinstance(search, Choice) else (search.low, search.high):
            options = {name: value}
            if search.when is not None:
                options = {search.when[0]: search.when[1][0], **options}
            assert make_penalty(method, "marginal", **options) is not None
    assert space["weight"].low < space["weight"].high
