"""One training step of several groups: their encoders run as one, their penalties side by side."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from braindecode_censor.fleet.cuda_graphs import fork, run_side_by_side
from braindecode_censor.fleet.graph import Graph
from braindecode_censor.fleet.masks import hashed_masks
from braindecode_censor.fleet.stack import adam_step, join_rows, under_prefix
from braindecode_censor.numerics.unrecorded import current_recording

__all__ = ["Part", "critic_state", "step_together", "take_step"]


class Part(NamedTuple):
    """One group's part in a step; all tensors with its members along the first axis."""

    graph: Graph
    state: dict
    y: Tensor
    s: Tensor
    class_weight: Tensor
    noise: Tensor | None
    coefficients: Tensor

    def penalty_inputs(self, z):
        """Return all that a group's penalty and critics need."""
        inputs = {"z": z, "s": self.s, "y": self.y, "coefficients": self.coefficients}
        inputs |= {} if self.noise is None else {"noise": self.noise}
        return inputs | critic_state(self.state)


def critic_state(state):
    """Return the part of a stack that belongs to critics."""
    return {name: tensor for name, tensor in state.items() if name.startswith(("phi", "control."))}


def step_together(groups, inputs, compiled=True, steady=False):
    """Make batches and masks, take one step, and average the weights: a function of tensors alone."""
    lead, each = groups[0], [under_prefix(inputs, f"{k}.") for k in range(len(groups))]
    parts = [_part(group.graph, given) for group, given in zip(groups, each)]
    positions, seeds, counts = (
        join_rows([given[name] for given in each]) for name in ("positions", "seeds", "counts")
    )
    affine = torch.cat([given["affine"] for given in each], 1) if "affine" in each[0] else None
    x, moments = lead.resident.take_batch(positions, affine, seeds, counts)
    drawn, masks = under_prefix(inputs, "mask."), []
    for k, place in enumerate(lead.graph.network.places):
        decide = lead.graph.compiled_decide if compiled else None
        hashed = seeds, counts, k, place.shape(positions.shape[1]), place.p, x.dtype, decide
        masks.append(drawn[str(k)] if drawn else hashed_masks(*hashed))
    codes, numbers = take_step(parts, x, moments, tuple(masks), compiled, steady)
    results = {}
    for k, (part, given) in enumerate(zip(parts, each)):
        own = {f"state.{name}": tensor for name, tensor in part.state.items()}
        own |= _average(under_prefix(given, "best."), part.state, given["shares"])
        own |= {"numbers": numbers[k], "z": codes[k], "subjects": part.s, "classes": part.y}
        results |= {f"{k}.{name}": tensor for name, tensor in own.items()}
    return results


def _part(graph, given):
    y, s = (given[name].gather(1, given["positions"]) for name in ("y", "s"))
    state = under_prefix(given, "state.")
    return Part(graph, state, y, s, given["class_weight"], given.get("noise"), given["coefficients"])


def _average(averages, state, shares):
    """Take the weights after a step into their moving averages, as one estimator alone does."""
    found = {}
    for name, average in averages.items():
        if average.is_floating_point():
            share = shares.to(average.dtype).view(-1, *[1] * (average.ndim - 1))
            found[f"best.{name}"] = average.lerp(state[name], share)
        else:
            found[f"best.{name}"] = state[name].clone()
    return found


def take_step(parts, x, moments, masks, compiled=True, steady=True):
    """Take one step of encoders, classifiers and critics.

    The encoders of all groups and their optimisers run as one, for they are alike; penalties and critics run group by
    group.
    """
    lead, sizes = parts[0].graph, [len(part.y) for part in parts]
    encode, adam = (lead.compiled_encode, lead.compiled_adam) if compiled else (lead.encode, adam_step)
    theta, first, second = (
        join_rows([part.state[k] for part in parts]) for k in ("theta", "first", "second")
    )
    theta = theta.detach().requires_grad_()
    buffers = [under_prefix(part.state, "buffer.") for part in parts]
    buffers = {name: join_rows([one[name] for one in buffers]) for name in buffers[0]}
    y, class_weight = join_rows([part.y for part in parts]), join_rows([part.class_weight for part in parts])
    lead.network.module.train()
    z, loss, buffers = encode(theta, buffers, x, moments, y, class_weight, masks)
    codes, losses = z.detach().split(sizes), loss.detach().split(sizes)
    found = _push_all(parts, codes, steady)
    outputs, cotangents = [loss], [torch.ones_like(loss)]
    if found:
        outputs.append(z)
        pushes = [found[k]["push"] if k in found else torch.zeros_like(z) for k, z in enumerate(codes)]
        cotangents.append(join_rows(pushes))
    gradient = torch.autograd.grad(outputs, theta, cotangents)[0]
    numbers = []
    for k, own_loss in enumerate(losses):
        nothing = torch.full_like(own_loss, math.nan)
        more = [found[k][name] if k in found else nothing for name in ("values", "critic_losses")]
        numbers.append(torch.stack([own_loss, *more]).detach())
    options, theta = lead.options, theta.detach()
    with torch.no_grad():
        steps = join_rows([part.coefficients[:, :3] for part in parts]).T
        adam(theta, gradient, first, second, steps, options["betas"], options["eps"])
    updated = {f"buffer.{name}": tensor for name, tensor in buffers.items()}
    updated |= {"theta": theta, "first": first, "second": second}
    for name, tensor in updated.items():
        for part, rows in zip(parts, tensor.split(sizes)):
            part.state[name] = rows
    return codes, numbers


def _push_all(parts, codes, steady):
    """Results of ``Graph.push`` by the place of their part, for those with a penalty; moves the critics' state."""
    censored = [k for k, part in enumerate(parts) if part.graph.penalty is not None]
    inputs = [parts[k].penalty_inputs(codes[k]) for k in censored]
    if steady:
        results = run_side_by_side([parts[k].graph.recorded_push for k in censored], inputs)
    elif current_recording() is not None:
        results = fork([parts[k].graph.push for k in censored], inputs)
    else:
        results = [parts[k].graph.push(given) for k, given in zip(censored, inputs)]
    for k, result in zip(censored, results):
        parts[k].state.update({name: result[name] for name in critic_state(parts[k].state)})
    return dict(zip(censored, results))
