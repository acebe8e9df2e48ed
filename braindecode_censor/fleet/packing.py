"""How many members train side by side."""

import os

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from braindecode_censor.fleet.graph import Graph
from braindecode_censor.fleet.member import graph_key
from braindecode_censor.fleet.step import Part, take_step

__all__ = ["fitting_size", "share_out", "step_bytes"]

# Beyond these, more members no longer make a step cheaper per member (see docs/fleet.md); on a CPU they only
# leave the cache.
_ENOUGH = {"cpu": 8, "cuda": 256}
_SHARE = {"cpu": 0.5, "cuda": 0.8}  # of the free memory


def fitting_size(members, resident):
    """Return how many members to train side by side."""
    kind = resident.x.device.type
    if kind == "cuda":
        free = torch.cuda.mem_get_info(resident.x.device)[0]
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    largest = max(step_bytes(member, resident) for member in members)
    fits = int(_SHARE.get(kind, 0.5) * free // largest)
    return max(1, min(fits, _ENOUGH.get(kind, 64)))


def share_out(tasks, jobs):
    """Share trainings out among processes."""
    if jobs == 1 or any(torch.device(clf.device).type != "cpu" for _, clf, _ in tasks):
        return [tasks]
    alike, shares = {}, [[]]
    for task in tasks:
        alike.setdefault(graph_key(task[1]), []).append(task)
    enough = min(_ENOUGH["cpu"], -(-len(tasks) // jobs))
    for together in alike.values():
        if len(shares[-1]) >= enough:
            shares.append([])
        shares[-1] += together
    return shares


def step_bytes(member, resident):
    """Return an upper bound on the memory that one more member takes."""
    graph = Graph(member, vectorise=True)
    n = min(member.clf.batch_size, len(resident.x))
    state = {name: tensor.unsqueeze(0).clone() for name, tensor in graph.initial_state(member).items()}
    labels = torch.arange(n, device=resident.x.device).unsqueeze(0)
    shape = (
        None
        if member.censor is None
        else member.censor.penalty.measures[0].noise_shape(member.censor.penalty.n_subjects)
    )
    positions = torch.arange(n, device=resident.x.device).unsqueeze(0)
    n_classes = len(member.clf.classes_)
    with _Counter() as counter:
        part = Part(
            graph=graph,
            state=state,
            y=labels % n_classes,
            s=labels % 2,
            class_weight=resident.x.new_ones(1, n_classes),
            noise=None if shape is None else resident.x.new_ones(1, *shape),
            coefficients=resident.x.new_ones(1, 4 + 3 * member.clf.critic_steps),
        )
        masks = tuple(resident.x.new_ones(1, *place.shape(n)) for place in graph.network.places)
        batch = resident.take_batch(
            positions,
            resident.affine([member]),
            torch.zeros_like(labels[:, 0]),
            torch.ones_like(labels[:, 0]),
        )
        take_step([part], *batch, masks)
    return counter.total + 2 * sum(tensor.nbytes for tensor in state.values())


class _Counter(TorchDispatchMode):
    """Adds up the sizes of all new tensors."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not any(result.alias_info for result in func._schema.returns):  # neither a view nor in place
            self.total += sum(leaf.nbytes for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor))
        return out
