"""An epoch of several groups at once: their encoders are alike, so they run as one."""

import time

import torch
from torch.nn import functional as F

from braindecode_censor.fleet.masks import drawn_masks, hashed_masks
from braindecode_censor.fleet.monitor import Monitor
from braindecode_censor.fleet.stack import join_rows
from braindecode_censor.fleet.step import take_step

__all__ = ["step_groups", "train_epoch"]


def train_epoch(groups):
    """Train every member of every group for one epoch, validate, and keep what is best.

    Parameters
    ----------
    groups : list of Group
        With one kind of encoder and the same trials; their penalties may differ.

    Returns
    -------
    finished : list of Member
        Those that have nothing left to do; still in their groups.
    """
    began = time.perf_counter()
    plans = [group.plan_epoch() for group in groups]
    monitors = [Monitor(len(group)) for group in groups]
    for k in range(max(map(len, plans))):
        alike = {}  # batches of one size run as one
        for i, launches in enumerate(plans):
            if k < len(launches):
                alike.setdefault(launches[k].positions.shape[1], []).append((i, launches[k]))
        for taking in alike.values():
            step_groups(groups, taking, monitors)
    logged = [monitor.report(group.graph, group.state) for monitor, group in zip(monitors, groups)]
    for group, numbers, logits in zip(groups, logged, _validate(groups)):
        group.close_epoch(numbers, logits)
    members = [member for group in groups for member in group.members]
    seconds = (time.perf_counter() - began) / len(members)
    for member in members:
        member.seconds += seconds
    return [member for member in members if member.is_finished()]


def step_groups(groups, taking, monitors):
    """Take one step of some groups, whose batches are equally large.

    Parameters
    ----------
    groups : list of Group
        All groups of the fleet.
    taking : list of (int, Launch)
        Which of them take the step, and what it is.
    monitors : list of Monitor
        One for each group.
    """
    resident = groups[0].resident
    parts = [groups[i].part(launch) for i, launch in taking]
    positions = join_rows([launch.positions for _, launch in taking])
    whole = all(launch.rows is None for _, launch in taking)
    everybody = whole and len(taking) == len(groups)
    seeds = join_rows([_rows(groups[i].seeds, launch) for i, launch in taking])
    counts = join_rows([launch.counts for _, launch in taking])
    masks = _masks(groups, taking, positions.shape[1], everybody, seeds, counts)
    affine = None
    if resident.by_population:
        affine = torch.cat([_rows(groups[i].affine, launch, axis=1) for i, launch in taking], 1)
    x, moments = resident.take_batch(positions, affine, seeds, counts)
    codes, numbers = take_step(parts, x, moments, masks, compiled=everybody, steady=whole)
    for (i, launch), part, z, found in zip(taking, parts, codes, numbers):
        groups[i].put_back(launch, part)
        monitors[i].add(launch.members, found, z, part.s, part.y)


def _rows(table, launch, axis=0):
    return table if launch.rows is None else table.index_select(axis, launch.rows)


def _masks(groups, taking, n, everybody, seeds, counts):
    lead, dtype, masks = groups[0], groups[0].resident.x.dtype, {}
    if not lead.hashed:
        generators = [groups[i].members[j].generator for i, launch in taking for j in launch.members]
    for layer, (name, (shape, p)) in enumerate(lead.graph.masks.items()):
        if lead.hashed:
            decide = lead.graph.compiled_decide if everybody else None
            masks[name] = hashed_masks(seeds, counts, layer, (n, *shape), p, dtype, decide)
        else:
            masks[name] = drawn_masks(generators, (n, *shape), p, dtype).to(lead.resident.x.device)
    return masks


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
