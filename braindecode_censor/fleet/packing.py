"""Number of replicas that fit into the memory of the device."""

import numpy as np
import psutil
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from braindecode_censor.fleet.group import Group, Launch
from braindecode_censor.fleet.step import step_together

__all__ = ["fitting_size", "step_bytes"]

_MAX_REPLICAS = 256  # With more, a step on a GPU does not get cheaper per replica.
_MEMORY_FRACTION = 0.8


def fitting_size(replicas, trials):
    """Return the number of replicas to train together, given one of each graph."""
    largest = max(step_bytes(replica, trials) for replica in replicas)
    fits = int(_MEMORY_FRACTION * _free_memory(trials.x.device) // largest)
    return max(1, min(fits, _MAX_REPLICAS))


def _free_memory(device):
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def step_bytes(replica, trials):
    """Return an upper bound of the memory that a further replica takes."""
    x, censor, group = trials.x, replica.censor, Group([replica], trials)
    positions = torch.arange(min(replica.clf.batch_size, len(x)), device=x.device).unsqueeze(0)
    tensors = {"counts": positions[:, 0] + 1, "average_weights": x.new_ones(1)}
    tensors["coefficients"] = x.new_ones(1, 4 + 3 * group.graph.critic_steps)
    if censor is not None:
        shape = censor.penalty.measures[0].noise_shape(censor.penalty.n_subjects)
        tensors |= {} if shape is None else {"noise": x.new_ones(1, *shape)}
    inputs = group.step_inputs(Launch(np.zeros(1, dtype=int), None, positions, tensors))
    with _Counter() as counter:
        step_together([group], {f"0.{name}": tensor for name, tensor in inputs.items()})
    return counter.total + 2 * sum(tensor.nbytes for tensor in group.state.values())


class _Counter(TorchDispatchMode):
    """Sum of the sizes of all new tensors."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not any(result.alias_info for result in func._schema.returns):  # neither a view nor in place
            self.total += sum(leaf.nbytes for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor))
        return out
