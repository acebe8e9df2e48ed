"""Components of a fleet: AdamW, dropout, memory, and steps that compile and do not wait for the CPU."""

import copy

import pytest
import torch
from torch import nn

from braindecode_censor.fleet import Replica, packing
from braindecode_censor.fleet.device_trials import DeviceTrials, SubjectStatistics
from braindecode_censor.fleet.epoch import step_groups
from braindecode_censor.fleet.group import Group
from braindecode_censor.fleet.masks import hash_masks
from braindecode_censor.fleet.monitor import Monitor
from braindecode_censor.fleet.packing import fitting_size, step_bytes
from braindecode_censor.fleet.stack import Layout, adam_coefficients, adam_step
from fleet.folds import assert_equal, data, fit_fleet, folds


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_adam_step_equals_torch(dtype, weight_decay):
    """Three replicas with their own learning rates, for 30 steps of a changing rate."""
    torch.manual_seed(0)
    betas, eps, layer = (0.9, 0.99), 1e-8, nn.Linear(5, 3)
    modules = [copy.deepcopy(layer).to(dtype) for _ in range(3)]
    options = {"lr": 1.0, "betas": betas, "eps": eps, "weight_decay": weight_decay}
    optimizers = [torch.optim.AdamW(m.parameters(), **options) for m in modules]
    layout = Layout(layer)
    theta = torch.stack([layout.pack(module) for module in modules])
    first, second = torch.zeros_like(theta), torch.zeros_like(theta)
    for step in range(30):
        gradient = torch.randn_like(theta)
        rates = [0.1 / (1 + step), 1e-3, 0.03]
        for module, optimizer, row, rate in zip(modules, optimizers, gradient, rates):
            optimizer.param_groups[0]["lr"] = rate
            for parameter, grad in zip(module.parameters(), layout.unpack(row).values()):
                parameter.grad = grad.clone()
            optimizer.step()
        coefficients = [adam_coefficients(step + 1, rate, betas, weight_decay) for rate in rates]
        adam_step(theta, gradient, first, second, torch.tensor(coefficients, dtype=dtype).T, betas, eps)
    expected = torch.stack([layout.pack(module) for module in modules])
    tolerance = {torch.float32: 1e-6, torch.float64: 1e-14}[dtype]
    torch.testing.assert_close(theta, expected, rtol=0, atol=tolerance)


def test_hashed_masks_are_fair_and_independent():
    n, p = 40_000, 0.3
    seeds, counts = torch.tensor([0, 0, 1, 0]), torch.tensor([1, 2, 1, 1])
    masks = hash_masks(seeds, counts, 0, (n,), p, torch.float64)
    other = hash_masks(seeds, counts, 1, (n,), p, torch.float64)
    assert set(masks.unique().tolist()) == {0.0, 1 / (1 - p)}
    assert torch.equal(masks[0], masks[3]), "same seed, step and layer"
    assert torch.equal(masks[2:3], hash_masks(seeds[2:3], counts[2:3], 0, (n,), p, torch.float64))
    is_kept = torch.cat([masks[:3], other[:3]]) > 0
    assert ((is_kept.double().mean(1) - (1 - p)).abs() < 5 * (p * (1 - p) / n) ** 0.5).all()
    correlation = torch.corrcoef(is_kept.double())
    assert (correlation - torch.eye(6)).abs().max() < 5 / n**0.5
    neighbours = torch.stack([is_kept[0, :-1], is_kept[0, 1:]]).double()
    assert abs(torch.corrcoef(neighbours)[0, 1]) < 5 / n**0.5


def group(n=2):
    X, y, subjects = data()
    tasks = folds(subjects, [{"penalty": "adv", "weight": 0.1, "random_state": k} for k in range(n)])
    statistics = SubjectStatistics(X, subjects)
    replicas = [Replica(*task, statistics, y) for task in tasks]
    return Group(replicas, DeviceTrials(replicas[0].clf, statistics))


def test_step_bytes_bound_grows_with_the_batch():
    one = group(1)
    replica, trials = one.replicas[0], one.trials
    small = step_bytes(replica, trials)
    batch = replica.clf.batch_size * trials.x[0].nbytes
    assert small > 3 * batch
    replica.clf.batch_size *= 2
    assert small + 3 * batch < step_bytes(replica, trials) < 2.5 * small


def test_fitting_size_is_smaller_with_less_memory(monkeypatch):
    one = group(1)
    need = step_bytes(one.replicas[0], one.trials)
    for free, size in ((need * 3.5 / packing._MEMORY_FRACTION, 3), (1, 1), (1e15, 256)):
        monkeypatch.setattr(packing, "_free_memory", lambda device, free=free: free)
        assert fitting_size(one.replicas, one.trials) == size


def test_compiled_equals_eager():
    """Graphs as inductor gets them, decomposed as by inductor, and run operation by operation.

    Two shapes in one process: torch would compile the second for any number of channels, and cannot batch that. A limit
    of one shape and an error beyond it show that the fleet overrules that.
    """
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    X, y, subjects = data()
    settings = {"penalty": "adv", "weight": 0.1, "max_epochs": 1, "augment": ["TimeReverse"]}
    settings = [{**settings, "random_state": seed, "module__drop_prob": 0.25} for seed in range(2)]
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        for n_chans, backend in ((3, "aot_eager_decomp_partition"), (2, "eager")):
            X = X[:, :n_chans]
            eager, compiled = (
                fit_fleet(X, y, subjects, settings, compile=compile) for compile in (False, backend)
            )
            assert_equal(compiled, [eager[0], eager[1]], 1e-9)
    assert not torch._dynamo.utils.counters["graph_break"]


def test_steps_do_not_wait_for_the_cpu(monkeypatch):
    """Between the plan and the end of an epoch nothing is read: on a GPU each read would stop the queue."""
    one = group(2)
    launches, monitors = one.plan_epoch(), [Monitor(len(one))]

    def refuse(*args, **kwargs):
        raise AssertionError("a tensor was read on the CPU")

    for name in ("item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    for launch in launches:
        step_groups([one], [(0, launch)], monitors)


def test_replica_does_not_depend_on_the_rest_of_the_fleet():
    X, y, subjects = data()
    options = {"penalty": "adv", "weight": 0.1, "module__drop_prob": 0.25, "max_epochs": 2}
    settings = [{**options, "random_state": seed} for seed in range(3)]
    whole, first = fit_fleet(X, y, subjects, settings), fit_fleet(X, y, subjects, settings[:1])
    assert_equal({0: whole[0]}, [first[0]], 1e-9)
