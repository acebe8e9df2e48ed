"""Does sharing work change anything: labels looked at once, halves judged at once, parameters as one vector?"""

import copy
import pickle

import pytest
import torch
from cases import BATCHES, IDS, N_CLASSES, N_FEATURES, N_SUBJECTS, PENALTIES, make_batch, make_penalty
from torch.func import grad, vmap

import braindecode_censor as bc
from braindecode_censor.numerics.groups import equal_groups, same_group
from braindecode_censor.penalties.batch import Batch
from braindecode_censor.penalties.critics import LabelledMLP, VectorAdam
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.training.censoring import CensoringStep

EXACT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize(("method", "mode"), PENALTIES, ids=IDS)
def test_a_batch_made_once_gives_the_same_values(method, mode, kind):
    z, s, y = make_batch(kind)
    penalty = make_penalty(method, mode).eval()
    batch = penalty.make_batch(z, s, y)
    for function in (penalty, penalty.critic_loss):
        torch.testing.assert_close(function(z, batch), function(z, s, y), **EXACT)
        torch.testing.assert_close(function(z, batch), function(z, s, y), **EXACT)
    assert method in ("mmd", "pairmmd", "mige") or batch.facts, "nothing was shared"


def test_other_settings_do_not_get_each_others_facts():
    z, s, _ = make_batch("unbalanced")
    shared = Batch(s, n_subjects=N_SUBJECTS, facts={})
    for name in ("adv", "began"):
        for options in ({}, {"min_trials": 4}, {"reduction": "sum"}):
            torch.manual_seed(0)
            measure = MEASURES[name](N_FEATURES, N_SUBJECTS, **options).double()
            alone = measure.censor(z, Batch(s, n_subjects=N_SUBJECTS))
            torch.testing.assert_close(measure.censor(z, shared), alone, **EXACT)


@pytest.mark.parametrize("lengthscale", ["median", "tsne", 2.0])
@pytest.mark.parametrize("method", ["mmd", "pairmmd", "mige"])
def test_both_halves_at_once_equal_one_after_the_other(method, lengthscale):
    z, s, _ = make_batch("unbalanced")
    penalty = make_penalty(method, "complementary", lengthscale=lengthscale)
    assert len(penalty.measures) == 1
    censored, revealed = (
        bc.make_penalty(method, lengthscale=lengthscale)(half, s) for half in z.chunk(2, dim=1)
    )
    torch.testing.assert_close(penalty(z, s), censored - revealed, rtol=1e-10, atol=1e-10)


def test_a_length_scale_of_ones_own_sees_one_half_at_a_time():
    class Mean:
        def precision(self, d2, same=None):
            assert d2.ndim == 2
            return 1 / d2.mean()

    z, s, _ = make_batch("balanced")
    penalty = make_penalty("mmd", "complementary", lengthscale=Mean())
    assert len(penalty.measures) == 2
    assert torch.isfinite(penalty(z, s))


def train(module, step, steps=20):
    z, s, _ = make_batch("balanced")
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(module(z), s)
        step(torch.autograd.grad(loss, list(module.parameters())))
    return [p.detach().clone() for p in module.parameters()]


def make_mlp():
    torch.manual_seed(0)
    return LabelledMLP(N_FEATURES, N_SUBJECTS, [7, 5]).double()


def test_one_vector_is_stepped_as_torch_steps_the_parameters():
    module = make_mlp()
    adam = torch.optim.Adam(module.parameters(), lr=1e-2)

    def step(gradients):
        for p, gradient in zip(module.parameters(), gradients):
            p.grad = gradient
        adam.step()

    expected = train(module, step)
    module = make_mlp()
    for found, wanted in zip(train(module, VectorAdam(module.parameters(), 1e-2).step), expected):
        torch.testing.assert_close(found, wanted, **EXACT)


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda step: pickle.loads(pickle.dumps(step))])
def test_a_copied_step_goes_on_as_the_first_and_apart_from_it(twin):
    z, s, y = make_batch("balanced")
    step = CensoringStep(make_penalty("adv", "complementary"), critic_lr=1e-2)
    step.generator = None  # a generator cannot be pickled, and this penalty draws nothing
    for _ in range(3):
        step(z, s, y)
    copied = twin(step)
    before = [p.detach().clone() for p in step.penalty.parameters()]
    moved, _ = copied(z, s, y)
    for p, old, other in zip(step.penalty.parameters(), before, copied.penalty.parameters()):
        assert (p == old).all()
        assert (other != old).any()
    torch.testing.assert_close(step(z, s, y)[0], moved, **EXACT)


def test_continuous_conditional_penalties_take_a_batch_too():
    z, _, y = make_batch("balanced")
    penalty = make_penalty("mmd", "conditional", nuisance="continuous")
    batch = penalty.make_batch(z, z[:, 0], y)
    assert batch.n_classes == N_CLASSES
    torch.testing.assert_close(penalty(z, batch), penalty(z, z[:, 0], y), **EXACT)


@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize("lengthscale", ["median", "tsne", 2.0])
@pytest.mark.parametrize("score", ["ssge", "mige", "stein", "tikhonov", "nu"])
@pytest.mark.parametrize("mode", ["marginal", "conditional", "complementary"])
def test_equal_groups_as_a_stack_and_within_the_whole_are_the_same(mode, score, lengthscale, calibrate):
    """Under vmap nobody may look how large the groups are, so they are fitted within the whole sample."""
    z, s, y = make_batch("balanced")
    options = {"score": score, "lengthscale": lengthscale, "calibrate": calibrate}
    penalty = make_penalty("mige", mode, **options)
    assert equal_groups(same_group(s)).shape == (N_SUBJECTS, 9)
    eager = penalty.gradient(z, s, y)[1]
    (traced,) = vmap(grad(penalty), in_dims=(0, None, None))(z[None], s, y)
    torch.testing.assert_close(eager, traced, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("labels", [[0, 0, 1], [0, 1, 2], [0, 0, 1, 1, 1, 2]])
def test_groups_that_differ_or_are_single_trials_are_not_stacked(labels):
    assert equal_groups(same_group(torch.tensor(labels))) is None


def test_equal_groups_are_found_in_any_order():
    s = torch.tensor([2, 0, 1, 1, 0, 2])
    members = equal_groups(same_group(s))
    assert s[members].tolist() == [[2, 2], [0, 0], [1, 1]] and sorted(members.flatten().tolist()) == list(
        range(6)
    )
