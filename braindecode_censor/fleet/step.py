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
    """One group's part in a step; all tensors with its members along the first axis.

    Parameters
    ----------
    graph : Graph
        The group's graph.
    state : dict of str to Tensor
        Stacked, changed in place.
    y, s : Tensor of shape (n_members, n)
        Classes and subjects of the batches.
    class_weight : Tensor of shape (n_members, n_classes)
        Weights of the task loss.
    noise : Tensor of shape (n_members, ...) or None
        Random numbers of the penalty.
    coefficients : Tensor of shape (n_members, n_coefficients)
        From :meth:`~braindecode_censor.fleet.member.Member.advance`.
    """

    graph: Graph
    state: dict
    y: Tensor
    s: Tensor
    class_weight: Tensor
    noise: Tensor | None
    coefficients: Tensor

    def penalty_inputs(self, z):
        """Return all that a group's penalty and critics need.

        Parameters
        ----------
        z : Tensor of shape (n_members, n, n_features)
            Latent codes, detached.

        Returns
        -------
        inputs : dict of str to Tensor
            For :meth:`~braindecode_censor.fleet.graph.Graph.push`.
        """
        inputs = {"z": z, "s": self.s, "y": self.y, "coefficients": self.coefficients}
        inputs |= {} if self.noise is None else {"noise": self.noise}
        return inputs | critic_state(self.state)


def critic_state(state):
    """Return the part of a stack that belongs to critics.

    Parameters
    ----------
    state : dict of str to Tensor
        Stacked.

    Returns
    -------
    part : dict of str to Tensor
        Their parameters, optimisers and controls.
    """
    return {name: tensor for name, tensor in state.items() if name.startswith(("phi", "control."))}


def step_together(groups, inputs, compiled=True, steady=False):
    """Make batches and masks, take one step, and average the weights: a function of tensors alone.

    Parameters
    ----------
    groups : list of Group
        Whose graphs and trials to use; all else comes from `inputs`.
    inputs : dict of str to Tensor
        What :meth:`~braindecode_censor.fleet.group.Group.step_inputs` says of each group, under the prefixes "0.",
        "1." and so on; and, where masks are not hashed, the masks under "mask.". States are changed in place.
    compiled, steady : bool
        As in :func:`take_step`.

    Returns
    -------
    results : dict of str to Tensor
        Under the same prefixes each group's state and averaged weights, and numbers, codes, subjects and classes of
        the batch.
    """
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

    Parameters
    ----------
    parts : list of Part
        The groups, with batches of one size.
    x : Tensor of shape (n_members, n, n_chans, n_times)
        Batches of all members, in the order of the parts.
    moments : Tensor of shape (n_members, n, K, 1 + K) or None
        Lag moments of the same trials; None computes them in the step.
    masks : tuple of Tensor
        Dropout masks, in the order in which a forward pass needs them.
    compiled : bool
        Whether to use the compiled parts, where there are any.
    steady : bool
        Whether steps of these shapes are likely to come again, so that recording them may pay; see
        :mod:`braindecode_censor.fleet.cuda_graphs`.

    Returns
    -------
    z : tuple of Tensor of shape (n_members, n, n_features)
        Latent codes of each part.
    numbers : list of Tensor of shape (3, n_members)
        Task loss, penalty and critic's loss of each member of each part; NaN where there is none.
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
