"""An epoch of several groups at once: their encoders are equal, so they run as one."""

import time
from functools import partial

import torch
from torch.nn import functional as F

from braindecode_censor.fleet.cuda_graphs import CapturedFunction
from braindecode_censor.fleet.monitor import Monitor
from braindecode_censor.fleet.stack import join_rows, under_prefix
from braindecode_censor.fleet.step import step_together

__all__ = ["step_groups", "train_epoch"]


def train_epoch(groups):
    """Train every replica for one epoch, validate, keep the best weights, and return the finished replicas."""
    began = time.perf_counter()
    plans = [group.plan_epoch() for group in groups]
    monitors = [Monitor(len(group), group.graph.penalty is not None) for group in groups]
    for k in range(max(map(len, plans))):
        by_size = {}  # Batches of equal size run as one.
        for i, launches in enumerate(plans):
            if k < len(launches):
                by_size.setdefault(launches[k].positions.shape[1], []).append((i, launches[k]))
        for launches in by_size.values():
            step_groups(groups, launches, monitors)
    replicas = [replica for group in groups for replica in group.replicas]
    for replica in replicas:
        replica.draw_ahead()  # The device is still at work.
    logged = [monitor.report(group.graph, group.state) for monitor, group in zip(monitors, groups)]
    for group, numbers, logits in zip(groups, logged, _validate(groups)):
        group.close_epoch(numbers, logits)
    seconds = (time.perf_counter() - began) / len(replicas)
    for replica in replicas:
        replica.seconds += seconds
    return [replica for replica in replicas if replica.is_finished()]


def step_groups(groups, indexed_launches, monitors):
    """Take one step of some groups, given as (index of the group, launch), with batches of equal size."""
    launches = [launch for _, launch in indexed_launches]
    stepped = [groups[i] for i, _ in indexed_launches]
    inputs = {}
    for k, (group, launch) in enumerate(zip(stepped, launches)):
        inputs |= {f"{k}.{name}": tensor for name, tensor in group.step_inputs(launch).items()}
    whole = all(launch.rows is None for launch in launches)
    compiled = whole and len(launches) == len(groups)
    if whole and all(group.can_be_captured() for group in stepped):
        step = CapturedFunction(partial(step_together, stepped, compiled=compiled))
        results = stepped[0].trials.captured_steps.setdefault(tuple(map(id, stepped)), step)(inputs)
    else:
        results = step_together(stepped, inputs, compiled=compiled, steady=whole)
    for k, (i, launch) in enumerate(indexed_launches):
        outputs = under_prefix(results, f"{k}.")
        groups[i].put_back(launch, outputs)
        monitors[i].add(
            launch.replica_idx, *(outputs[name] for name in ("numbers", "z", "subjects", "classes"))
        )


def _validate(groups):
    """Return the class scores of all validation trials, group by group, on the CPU."""
    longest = max(group.valid.shape[1] for group in groups)
    if not longest:
        return [[None] * len(group) for group in groups]
    valid = join_rows([F.pad(group.valid, (0, longest - group.valid.shape[1])) for group in groups])
    names = [name for name in groups[0].state if name == "theta" or name.startswith("buffer.")]
    state = {name: join_rows([group.state[name] for group in groups]) for name in names}
    graph, trials, size = groups[0].graph, groups[0].trials, max(64, groups[0].replicas[0].clf.batch_size)
    affine = join_rows([g.tables["affine"] for g in groups]) if trials.by_population else None
    chunks = [graph.evaluate(state, trials.take(positions, affine)) for positions in valid.split(size, 1)]
    return torch.cat(chunks, 1).cpu().split([len(group) for group in groups])
