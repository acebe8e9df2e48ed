"""Components of a fleet: AdamW, dropout, memory, and steps that compile and do not wait for the CPU."""

import torch

from braindecode_censor.fleet import packing
from braindecode_censor.fleet.epoch import step_groups
from braindecode_censor.fleet.masks import hash_masks
from braindecode_censor.fleet.monitor import Monitor
from braindecode_censor.fleet.packing import fitting_size, step_bytes
from fleet.folds import assert_equal, data, fit_fleet, make_group


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
    return make_group([{"penalty": "adv", "weight": 0.1, "random_state": k} for k in range(n)])


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
    """Graphs as inductor gets them; torch would compile the second shape for any size, and cannot batch that."""
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
