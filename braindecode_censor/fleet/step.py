"""One training step of several groups: their encoders run as one, their penalties side by side."""

import math

import torch

from braindecode_censor.fleet.cuda_graphs import fork, run_side_by_side
from braindecode_censor.fleet.masks import hash_masks
from braindecode_censor.fleet.stack import adam_step, join_rows, under_prefix
from braindecode_censor.numerics.unrecorded import current_recording

__all__ = ["critic_state", "step_together"]


def critic_state(state):
    """Return the tensors of a stack that belong to critics."""
    return {name: tensor for name, tensor in state.items() if name.startswith(("phi", "control."))}


def step_together(groups, inputs, compiled=True, steady=False):
    """Take one step of groups with equal encoders and average their weights: a function of tensors alone.

    The names of `inputs` and results begin with the number of their group. Encoders and optimisers run as one,
    penalties and critics group by group; `steady` calls replay captured penalties.
    """
    graph, group_inputs = groups[0].graph, []
    for k in range(len(groups)):
        tensors = under_prefix(inputs, f"{k}.")
        labels = {name: tensors[name].gather(1, tensors["positions"]) for name in ("y", "s")}
        group_inputs.append(tensors | labels)
    states = [under_prefix(tensors, "state.") for tensors in group_inputs]
    sizes = [len(state["theta"]) for state in states]
    encode, adam = (graph.compiled_encode, graph.compiled_adam) if compiled else (graph.encode, adam_step)
    theta, first, second = (join_rows([state[k] for state in states]) for k in ("theta", "first", "second"))
    theta = theta.detach().requires_grad_()
    buffers = [under_prefix(state, "buffer.") for state in states]
    buffers = {name: join_rows([one[name] for one in buffers]) for name in buffers[0]}
    graph.network.module.train()
    z, loss, buffers = encode(theta, buffers, *_make_batch(groups[0], group_inputs, compiled))
    codes = z.detach().split(sizes)
    penalties = _push_all(groups, group_inputs, states, codes, steady)
    outputs, cotangents = [loss], [torch.ones_like(loss)]
    if penalties:
        outputs.append(z)
        pushes = [
            penalties[k]["push"] if k in penalties else torch.zeros_like(z) for k, z in enumerate(codes)
        ]
        cotangents.append(join_rows(pushes))
    gradient = torch.autograd.grad(outputs, theta, cotangents)[0]
    options, theta = graph.options, theta.detach()
    with torch.no_grad():
        coefficients = join_rows([tensors["coefficients"][:, :3] for tensors in group_inputs]).T
        adam(theta, gradient, first, second, coefficients, options["betas"], options["eps"])
    updated = {f"buffer.{name}": tensor for name, tensor in buffers.items()}
    updated |= {"theta": theta, "first": first, "second": second}
    for name, tensor in updated.items():
        for state, rows in zip(states, tensor.split(sizes)):
            state[name] = rows
    results = {}
    for k, (tensors, state, group_loss) in enumerate(zip(group_inputs, states, loss.detach().split(sizes))):
        nan = torch.full_like(group_loss, math.nan)
        numbers = [penalties[k][name] if k in penalties else nan for name in ("values", "critic_losses")]
        outputs = {f"state.{name}": tensor for name, tensor in state.items()}
        outputs |= _average(under_prefix(tensors, "best."), state, tensors["average_weights"])
        outputs |= {"numbers": torch.stack([group_loss, *numbers]), "z": codes[k]}
        outputs |= {"subjects": tensors["s"], "classes": tensors["y"]}
        results |= {f"{k}.{name}": tensor for name, tensor in outputs.items()}
    return results


def _make_batch(lead, group_inputs, compiled):
    """Return signals, moments, labels, class weights and dropout masks of all groups."""
    names = ["positions", "seeds", "counts", "y", "class_weight"]
    positions, seeds, counts, y, class_weight, *affine = (
        join_rows([tensors[name] for tensors in group_inputs])
        for name in names + ["affine"] * lead.trials.by_population
    )
    x, moments = lead.trials.take_batch(positions, *(affine or [None]), seeds, counts)
    function, n = lead.graph.compiled_mask if compiled else None, positions.shape[1]
    masks = (
        hash_masks(seeds, counts, k, site.shape(n), site.p, x.dtype, function)
        for k, site in enumerate(lead.graph.network.sites)
    )
    return x, moments, y, class_weight, tuple(masks)


def _push_all(groups, group_inputs, states, codes, steady):
    """Return the results of ``Graph.push`` by the number of their group, and update the states of the critics."""
    censored = [k for k, group in enumerate(groups) if group.graph.penalty is not None]
    graphs, inputs = [groups[k].graph for k in censored], []
    for k in censored:
        tensors = {name: group_inputs[k].get(name) for name in ("s", "y", "coefficients", "noise")}
        tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        inputs.append({"z": codes[k], **tensors, **critic_state(states[k])})
    if steady:
        results = run_side_by_side([graph.captured_push for graph in graphs], inputs)
    elif current_recording() is not None:
        results = fork([graph.push for graph in graphs], inputs)
    else:
        results = [graph.push(tensors) for graph, tensors in zip(graphs, inputs)]
    for k, result in zip(censored, results):
        states[k].update({name: result[name] for name in critic_state(states[k])})
    return dict(zip(censored, results))


def _average(averages, state, weights):
    """Return the moving averages of the weights after a step, as a single training computes them."""
    results = {}
    for name, average in averages.items():
        if average.is_floating_point():
            weight = weights.to(average.dtype).view(-1, *[1] * (average.ndim - 1))
            results[f"best.{name}"] = average.lerp(state[name], weight)
        else:
            results[f"best.{name}"] = state[name].clone()
    return results
