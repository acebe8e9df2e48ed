"""An epoch of several groups at once: their encoders are alike, so they run as one."""

import time
from functools import partial

import torch
from torch.nn import functional as F

from braindecode_censor.fleet.cuda_graphs import Recorder
from braindecode_censor.fleet.masks import drawn_masks
from braindecode_censor.fleet.monitor import Monitor
from braindecode_censor.fleet.stack import join_rows, under_prefix
from braindecode_censor.fleet.step import step_together

__all__ = ["step_groups", "train_epoch"]


def train_epoch(groups):
    """Train every member of every group for one epoch, validate, and keep what is best."""
    began = time.perf_counter()
    plans = [group.plan_epoch() for group in groups]
    monitors = [Monitor(len(group), group.graph.penalty is not None) for group in groups]
    for k in range(max(map(len, plans))):
        alike = {}  # batches of one size run as one
        for i, launches in enumerate(plans):
            if k < len(launches):
                alike.setdefault(launches[k].positions.shape[1], []).append((i, launches[k]))
        for taking in alike.values():
            step_groups(groups, taking, monitors)
    for group in groups:
        group.draw_ahead()  # while the device is still at work
    logged = [monitor.report(group.graph, group.state) for monitor, group in zip(monitors, groups)]
    for group, numbers, logits in zip(groups, logged, _validate(groups)):
        group.close_epoch(numbers, logits)
    members = [member for group in groups for member in group.members]
    seconds = (time.perf_counter() - began) / len(members)
    for member in members:
        member.seconds += seconds
    return [member for member in members if member.is_finished()]


def step_groups(groups, taking, monitors):
    """Take one step of some groups, whose batches are equally large."""
    takers, launches = [groups[i] for i, _ in taking], [launch for _, launch in taking]
    inputs = {}
    for k, (group, launch) in enumerate(zip(takers, launches)):
        inputs |= {f"{k}.{name}": tensor for name, tensor in group.step_inputs(launch).items()}
    if not takers[0].hashed:
        inputs |= _draw_masks(takers, launches)
    whole = all(launch.rows is None for launch in launches)
    compiled = whole and len(taking) == len(groups)
    if whole and all(group.can_be_recorded() for group in takers):
        step = Recorder(partial(step_together, takers, compiled=compiled))
        results = takers[0].resident.recorded_steps.setdefault(tuple(map(id, takers)), step)(inputs)
    else:
        results = step_together(takers, inputs, compiled=compiled, steady=whole)
    for k, (i, launch) in enumerate(taking):
        found = under_prefix(results, f"{k}.")
        groups[i].put_back(launch, found)
        monitors[i].add(launch.members, *(found[name] for name in ("numbers", "z", "subjects", "classes")))


def _draw_masks(groups, launches):
    generators = [group.members[j].generator for group, at in zip(groups, launches) for j in at.members]
    x, n = groups[0].resident.x, launches[0].positions.shape[1]
    return {
        f"mask.{k}": drawn_masks(generators, place.shape(n), place.p, x.dtype, place.order).to(x.device)
        for k, place in enumerate(groups[0].graph.network.places)
    }


def _validate(groups):
    """Scores of everybody's validation trials, group by group, on the CPU."""
    for group in groups:
        for member in group.members:
            member.draw_validation(drops_out=not group.hashed)
    longest = max(group.valid.shape[1] for group in groups)
    if not longest:
        return [[None] * len(group) for group in groups]
    valid = join_rows([F.pad(group.valid, (0, longest - group.valid.shape[1])) for group in groups])
    names = [name for name in groups[0].state if name == "theta" or name.startswith("buffer.")]
    state = {name: join_rows([group.state[name] for group in groups]) for name in names}
    lead, size = groups[0], max(64, groups[0].members[0].clf.batch_size)
    affine = None
    if lead.resident.by_population:
        affine = torch.cat([group.affine for group in groups], 1)
    chunks = [lead.graph.evaluate(state, lead.resident.take(part, affine)) for part in valid.split(size, 1)]
    return torch.cat(chunks, 1).cpu().split([len(group) for group in groups])
