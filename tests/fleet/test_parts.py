"""Do the parts of a fleet do what their torch counterparts do: AdamW, dropout, packing?"""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.fleet import Member
from braindecode_censor.fleet.epoch import step_groups
from braindecode_censor.fleet.group import Group
from braindecode_censor.fleet.masks import drawn_masks, hashed_masks
from braindecode_censor.fleet.monitor import Monitor
from braindecode_censor.fleet.packing import fitting_size, share_out, step_bytes
from braindecode_censor.fleet.resident import People, Resident
from braindecode_censor.fleet.stack import Layout, adam_coefficients, adam_step
from fleet.folds import assert_equal, data, folds, make, train_together


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_adam_is_torchs(dtype, weight_decay):
    """Three members with their own learning rates and step counts, for 30 steps of a changing rate."""
    torch.manual_seed(0)
    betas, eps, layer = (0.9, 0.99), 1e-8, nn.Linear(5, 3)
    modules = [copy.deepcopy(layer).to(dtype) for _ in range(3)]
    optimizers = [
        torch.optim.AdamW(m.parameters(), lr=1.0, betas=betas, eps=eps, weight_decay=weight_decay)
        for m in modules
    ]
    layout = Layout(layer)
    theta = torch.stack([layout.pack(module) for module in modules])
    first, second = torch.zeros_like(theta), torch.zeros_like(theta)
    for step in range(30):
        gradient = torch.randn_like(theta)
        rates = [0.1 / (1 + step), 1e-3, 0.03]
        for module, optimizer, row, rate in zip(modules, optimizers, gradient, rates):
            optimizer.param_groups[0]["lr"] = rate
            for parameter, part in zip(module.parameters(), layout.unpack(row).values()):
                parameter.grad = part.clone()
            optimizer.step()
        coefficients = [adam_coefficients(step + 1, rate, betas, weight_decay) for rate in rates]
        adam_step(theta, gradient, first, second, torch.tensor(coefficients, dtype=dtype).T, betas, eps)
    expected = torch.stack([layout.pack(module) for module in modules])
    torch.testing.assert_close(
        theta, expected, rtol=0, atol={torch.float32: 1e-6, torch.float64: 1e-14}[dtype]
    )


def test_drawn_masks_are_dropouts_own():
    generators = [torch.Generator().manual_seed(seed) for seed in (3, 4)]
    masks = [drawn_masks(generators, shape, 0.3, torch.float32) for shape in ((8, 6, 1, 10), (8, 4, 1, 2))]
    for member, seed in enumerate((3, 4)):
        torch.manual_seed(seed)
        for mask in masks:
            assert torch.equal(nn.functional.dropout(torch.ones_like(mask[member]), 0.3), mask[member])


def test_hashed_masks_are_fair_and_independent():
    n, p = 40_000, 0.3
    seeds, counts = torch.tensor([0, 0, 1, 0]), torch.tensor([1, 2, 1, 1])
    masks = hashed_masks(seeds, counts, 0, (n,), p, torch.float64)
    other = hashed_masks(seeds, counts, 1, (n,), p, torch.float64)
    assert set(masks.unique().tolist()) == {0.0, 1 / (1 - p)}
    assert torch.equal(masks[0], masks[3]), "same seed, step and layer"
    assert torch.equal(masks[2:3], hashed_masks(seeds[2:3], counts[2:3], 0, (n,), p, torch.float64)), "alone"
    kept = torch.cat([masks[:3], other[:3]]) > 0
    share = kept.double().mean(1)
    spread = (p * (1 - p) / n) ** 0.5
    assert ((share - (1 - p)).abs() < 5 * spread).all()
    correlation = torch.corrcoef(kept.double())
    assert (correlation - torch.eye(6)).abs().max() < 5 / n**0.5
    assert abs(torch.corrcoef(torch.stack([kept[0, :-1], kept[0, 1:]]).double())[0, 1]) < 5 / n**0.5


def test_hashed_dropout_trains_like_drawn_dropout():
    """Other masks of the same distribution: means of the loss over seeds agree within their spread."""
    X, y, subjects = data()
    settings = [
        {"penalty": None, "random_state": seed, "module__drop_prob": 0.5, "lr": 3e-3} for seed in range(5)
    ]
    losses = []
    for masks in ("drawn", "hashed"):
        found = train_together(X, y, subjects, settings, CensoredEEGClassifier, masks=masks)
        losses.append(np.array([found[k].history[-1, "train_loss"] for k in range(5)]))
    assert not np.array_equal(*losses)
    spread = np.hypot(*(loss.std(ddof=1) / 5**0.5 for loss in losses))
    assert abs(losses[0].mean() - losses[1].mean()) < 4 * spread


def group(n=2, **options):
    X, y, subjects = data()
    tasks = folds(subjects, [{"penalty": "adv", "weight": 0.1, "random_state": k} for k in range(n)])
    members = [Member(*task, People(X, subjects), y) for task in tasks]
    return Group(members, Resident(members[0].clf, People(X, subjects)), **options)


def test_the_bound_on_memory_holds_and_grows_with_the_batch():
    one = group(1)
    member, resident = one.members[0], one.resident
    small = step_bytes(member, resident)
    batch = member.clf.batch_size * resident.x[0].nbytes
    assert small > 3 * batch
    member.clf.batch_size *= 2
    assert small + 3 * batch < step_bytes(member, resident) < 2.5 * small
    assert fitting_size([member], resident) >= 1


def test_fewer_members_where_memory_is_short(monkeypatch):
    one = group(1)
    need = step_bytes(one.members[0], one.resident)
    monkeypatch.setattr("os.sysconf", lambda name: 1 if name == "SC_PAGE_SIZE" else int(need * 2 * 3.5))
    assert fitting_size(one.members, one.resident) == 3
    monkeypatch.setattr("os.sysconf", lambda name: 1)
    assert fitting_size(one.members, one.resident) == 1


def test_shares_keep_trainings_of_one_graph_together():
    settings = [
        {"penalty": p, "weight": w, "random_state": k}
        for p in ("mmd", "adv")
        for w in (0.1, 1)
        for k in (0, 1)
    ]
    tasks = [(k, make(**setting), np.arange(3)) for k, setting in enumerate(settings)]
    shares = share_out(tasks, jobs=2)
    assert [[key for key, *_ in share] for share in shares] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert share_out(tasks, jobs=1) == [tasks]
    assert share_out([(0, make(device="cuda"), np.arange(3)), *tasks], jobs=2)[1:] == []


def test_compiled_equals_eager():
    """The graphs that inductor gets, decomposed as it would, and run operation by operation.

    Of two shapes in one process: torch would compile the second for any number of channels, and cannot batch that. It
    is told to compile one shape and to fail beyond, which the fleet must have overruled.
    """
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    X, y, subjects = data()
    settings = {"penalty": "adv", "weight": 0.1, "max_epochs": 1, "augment": ["TimeReverse"]}
    settings = [{**settings, "random_state": seed, "module__drop_prob": 0.25} for seed in range(2)]
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        for n_chans in (3, 2):
            X = X[:, :n_chans]
            eager, compiled = (
                train_together(X, y, subjects, settings, vectorise=True, compile=compile)
                for compile in (False, "aot_eager_decomp_partition")
            )
            assert_equal(compiled, [eager[0], eager[1]], 1e-9)
    assert not torch._dynamo.utils.counters["graph_break"], "the step falls to pieces"


def test_no_step_waits_for_the_host(monkeypatch):
    """Between planning and the end of an epoch nothing is read back: on a GPU each read would stop the queue."""
    one = group(2, vectorise=True, masks="hashed")
    launches, monitors = one.plan_epoch(), [Monitor(len(one))]

    def refuse(*args, **kwargs):
        raise AssertionError("a tensor was read on the host")

    for name in ("item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    for launch in launches:
        step_groups([one], [(0, launch)], monitors)


def test_the_optimiser_of_the_fleet_is_the_estimators():
    assert make(CensoredEEGClassifier).optimizer is torch.optim.AdamW
