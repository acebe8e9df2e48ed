"""Measures, kernels, length scales and penalties of a user's own, which know nothing of how ours are made fast."""

import copy

import pytest
import torch
from cases import make_batch, make_penalty
from torch.func import vmap

from braindecode_censor import make_penalty as make
from braindecode_censor.numerics.kernels import DiagonalKernel, rbf
from braindecode_censor.numerics.lengthscales import MedianScale
from braindecode_censor.numerics.scores import Stein
from braindecode_censor.penalties.measures import MMD, Measure
from braindecode_censor.penalties.penalty import Penalty
from braindecode_censor.training.censoring import CensoringStep

SIZES = {"n_features": 6, "n_subjects": 4, "n_classes": 3}


class Standardised(MMD):
    """Written for one code (n, d), as all measures were."""

    def censor(self, z, batch):
        assert z.ndim == 2
        return super().censor((z - z.mean(0)) / z.std(0), batch)


def test_a_subclass_sees_one_half_at_a_time():
    z, s, y = make_batch("balanced")
    measure = Standardised(n_features=3, n_subjects=4)
    both = make(measure, "complementary", n_features=6, n_subjects=4)(z, s, y)
    halves = [make(measure, n_features=3, n_subjects=4)(half, s, y) for half in (z[:, :3], z[:, 3:])]
    torch.testing.assert_close(both, halves[0] - halves[1])


class Heavier(MMD):
    """Weights of its own, which depend on the labels alone."""

    def _compute_gram_weights(self, batch, dtype):
        return 2 * super()._compute_gram_weights(batch, dtype)


def test_a_subclass_beside_its_parent_keeps_its_own_weights():
    z, s, y = make_batch("balanced")
    measures = [MMD(n_features=3, n_subjects=4), Heavier(n_features=3, n_subjects=4)]
    both = Penalty(measures, "complementary", n_subjects=4)(z, s, y)
    parts = [Penalty([m], "marginal", n_subjects=4)(half, s, y) for m, half in zip(measures, z.split(3, 1))]
    torch.testing.assert_close(both, parts[0] - parts[1])
    assert parts[1].item() != 0


class Rowwise:
    """A length scale of each row: the kernel is not symmetric."""

    def precision(self, d2, same=None):
        return 1 / d2.mean(-1, keepdim=True)


class Halved(MedianScale):
    """A subclass that takes only one matrix of distances."""

    def precision(self, d2, same=None):
        assert d2.ndim == 2
        return 2 * super().precision(d2, same)


class Own(DiagonalKernel):
    """A kernel with an operator of its own."""

    def operator(self, x, y, d2, precision, mask):
        assert mask.dtype == torch.bool or set(mask.unique().tolist()) <= {0.0, 1.0}
        return super().operator(x, y, d2, precision, mask)


@pytest.mark.parametrize("mode", ["marginal", "complementary"])
@pytest.mark.parametrize(
    "options", [{"lengthscale": Rowwise()}, {"lengthscale": Halved()}, {"kernel": Own(rbf)}]
)
def test_gradient_of_mmd_with_parts_of_ones_own(options, mode):
    z, s, y = make_batch("unbalanced")
    penalty = make_penalty("mmd", mode, **options)
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(penalty(z, s, y), z)
    z = z.detach()
    for measure, half in zip(penalty.measures, z.chunk(len(penalty.measures), 1)):  # scales are held constant
        measure.lengthscale = Constant(measure.lengthscale.precision(torch.cdist(half, half) ** 2))
    step = torch.zeros_like(z)
    for i, j in ((0, 0), (5, 4), (20, 2)):
        step.zero_()[i, j] = 1e-6
        slope = (penalty(z + step, s, y) - penalty(z - step, s, y)) / 2e-6
        torch.testing.assert_close(gradient[i, j], slope, rtol=1e-4, atol=1e-9)


class Constant:
    """The same precision whatever the distances."""

    def __init__(self, value):
        self.value = value

    def precision(self, d2, same=None):
        return self.value


class Silent(Measure):
    """A measure that has nothing to say, and says it without a graph."""

    def censor(self, z, batch):
        return z.new_zeros(())


@pytest.mark.parametrize("mode", ["marginal", "complementary"])
def test_a_value_without_graph_pushes_nothing(mode):
    z, s, y = make_batch("balanced")
    step = CensoringStep(make(Silent, mode, **SIZES))
    gradient, _ = step(z, s, y)
    assert gradient.abs().max() == 0


class Doubled(Penalty):
    """A penalty that takes labels, not batches."""

    def forward(self, z, s, y=None, noise=None):
        assert isinstance(s, torch.Tensor)
        return 2 * super().forward(z, s, y, noise)


def test_a_penalty_of_ones_own_gets_labels():
    z, s, y = make_batch("balanced")
    plain = make_penalty("mmd", "conditional")
    doubled = Doubled(plain.measures, "conditional", plain.n_subjects, plain.n_classes)
    one, two = (CensoringStep(penalty)(z, s, y)[0] for penalty in (plain, doubled))
    torch.testing.assert_close(two, 2 * one)


def test_vmap_over_critics_alone():
    z, s, y = make_batch("balanced")
    penalty = make_penalty("adv", "marginal")
    stacked = {name: torch.stack([p, p]).detach() for name, p in penalty.named_parameters()}
    values = vmap(lambda parameters: torch.func.functional_call(penalty, parameters, (z, s, y)))(stacked)
    torch.testing.assert_close(values, penalty(z, s, y).detach().expand(2))


@pytest.mark.parametrize("disturb", ["zero_grad", "double", "copy", "deepcopy"])
def test_the_critic_goes_on_learning_when_its_parameters_are_touched(disturb):
    z, s, y = make_batch("balanced", dtype=torch.float32)
    step = CensoringStep(make("adv", **{**SIZES, "n_classes": None}), critic_lr=1e-2)
    first = step(z, s, y)[1][1]
    for _ in range(40):
        if disturb == "zero_grad":
            step.penalty.zero_grad()
        elif disturb == "double":
            step.penalty.double().float()
        elif disturb == "copy":
            copy.copy(step.optimizer)
        else:
            step = copy.deepcopy(step)
        last = step(z, s, y)[1][1]
    assert last < 0.7 * first


def test_one_trial_trains_no_critic():
    z, s, y = make_batch("balanced")
    step = CensoringStep(make_penalty("adv", "marginal"))
    with pytest.warns(UserWarning, match="held fewer than two subjects"):
        gradient, numbers = step(z[:1], s[:1], y[:1])
    assert gradient.abs().max() == 0 and numbers[1].isnan()


class Standardising(Stein):
    """A score that fits one sample at a time."""

    def fit(self, x, same=None):
        assert x.ndim == 2
        return super().fit(x / x.std(), same)


@pytest.mark.parametrize("mode", ["marginal", "conditional", "complementary"])
def test_a_score_with_a_fit_of_its_own_sees_whole_samples(mode):
    z, s, y = make_batch("balanced")
    gradient = make_penalty("mige", mode, score=Standardising()).gradient(z, s, y)[1]
    assert torch.isfinite(gradient).all() and gradient.abs().max() > 0
