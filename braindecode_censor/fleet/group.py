"""Members of one graph, side by side: their state, their batches, their best weights, and who comes and goes."""

from typing import NamedTuple

import numpy as np
import torch

from braindecode_censor.fleet.graph import Graph
from braindecode_censor.fleet.stack import put_rows, take_rows, under_prefix
from braindecode_censor.training.rules import average_share

__all__ = ["Group", "Launch"]


class Launch(NamedTuple):
    """One step of some members of a group, on the device."""

    members: np.ndarray
    rows: torch.Tensor | None
    positions: torch.Tensor
    counts: torch.Tensor
    coefficients: torch.Tensor
    shares: torch.Tensor
    noise: torch.Tensor | None


class Group:
    """Members of one graph, stacked."""

    def __init__(self, members, resident, states=None, vectorise=None, masks=None, compile=False):
        self.resident, self.members = resident, []
        on_cpu = resident.x.device.type == "cpu"
        vectorise = not on_cpu if vectorise is None else vectorise
        self.hashed = not on_cpu if masks is None else masks == "hashed"
        self.graph = Graph(members[0], vectorise, compile)
        self.state, self.best = {}, {}
        self.add(members, states)

    def __len__(self):
        return len(self.members)

    def add(self, members, states=None):
        """Take in members."""
        if not members:
            return
        fresh = [self.graph.initial_state(member) for member in members]
        states = [state or begin for state, begin in zip(states or [None] * len(members), fresh)]
        device = self.resident.x.device
        state = {name: torch.stack([one[name].to(device) for one in states]) for name in fresh[0]}
        kept = [name for name in fresh[0] if name == "theta" or name.startswith("buffer.")]
        best = {
            name: torch.stack([one.get(f"best.{name}", one[name]).to(device) for one in states])
            for name in kept
        }
        join = lambda old, new: {k: torch.cat([old[k], t]) for k, t in new.items()} if old else new  # noqa: E731
        self.state, self.best = join(self.state, state), join(self.best, best)
        self.members += members
        self._forget_recordings()
        self._tabulate()

    def can_be_recorded(self):
        """Tell whether the host has no part in a step."""
        free = self.graph.penalty is None or not self.graph.penalty.waits
        return self.hashed and free and self.resident.waits_for_nothing()

    def _forget_recordings(self):
        self.resident.recorded_steps.clear()  # of other groups too, which take their steps together with this one
        self.graph.forget_recordings()

    def _tabulate(self):
        """Put what members know of the trials into tables on the device."""
        place = {"device": self.resident.x.device}
        self.y, self.s = (
            torch.as_tensor(np.stack([getattr(m, name) for m in self.members]), **place)
            for name in ("y", "s")
        )
        n_classes = len(self.members[0].clf.classes_)
        weights = [m.clf.criterion_.train_weight for m in self.members]
        weights = [torch.ones(n_classes) if weight is None else weight for weight in weights]
        self.class_weight = torch.stack(weights).to(self.resident.x)
        self.seeds = torch.tensor([m.clf.random_state for m in self.members], **place)
        self.affine = self.resident.affine(self.members)
        longest = max(sum(map(len, m.valid)) for m in self.members)
        valid = np.zeros((len(self.members), longest), dtype=np.int64)
        for row, m in zip(valid, self.members):
            found = np.concatenate([*m.valid, row[:0]])
            row[: len(found)] = found
        self.valid = torch.as_tensor(valid, **place)

    def draw_ahead(self):
        """Draw the batches of everybody's next epoch, unless the host's generators have a part in them."""
        if self.hashed:
            for member in self.members:
                member.draw_ahead()

    def plan_epoch(self):
        """Draw everybody's batches; members whose batches are equally large take their step together."""
        drawn = [member.draw_batches(drops_out=not self.hashed) for member in self.members]
        steps = [member.advance(len(batches)) for member, batches in zip(self.members, drawn)]
        plans = []
        for k in range(max(map(len, drawn))):
            sizes = {}
            for i, batches in enumerate(drawn):
                if k < len(batches):
                    sizes.setdefault(len(batches[k]), []).append(i)
            for n, rows in sizes.items():
                positions = np.concatenate([drawn[i][k] for i in rows]).reshape(-1, n)
                noise = [self.members[i].draw_noise() for i in rows]
                noise = None if noise[0] is None else np.stack(noise)
                counts = np.array([steps[i][0][k] for i in rows])
                coefficients = np.concatenate([steps[i][1][k] for i in rows]).reshape(len(rows), -1)
                shares = np.array([average_share(count) for count in counts])
                plans.append((np.array(rows), positions, counts, coefficients, shares, noise))
        return self._ship(plans)

    def _ship(self, plans):
        """Send an epoch's numbers to the device in two pieces, so that no step waits for the host."""
        device, dtype = self.resident.x.device, self.resident.x.dtype
        whole = [a for rows, positions, counts, *_ in plans for a in (rows, positions, counts)]
        real = [a for *_, coefficients, shares, noise in plans for a in (coefficients, shares, noise)]
        whole = _send(whole, torch.int64, device)
        real = _send([a for a in real if a is not None], dtype, device)
        launches = []
        for rows, *_, noise in plans:
            on_device, positions, counts = next(whole), next(whole), next(whole)
            everyone = len(rows) == len(self.members)
            coefficients, shares, noise = next(real), next(real), None if noise is None else next(real)
            rows_on_device = None if everyone else on_device
            launches.append(Launch(rows, rows_on_device, positions, counts, coefficients, shares, noise))
        return launches

    def step_inputs(self, launch):
        """Return all that a step needs of this group."""
        rows = launch.rows
        inputs = {f"state.{name}": tensor for name, tensor in take_rows(self.state, rows).items()}
        if self.members[0].clf.keep == "ema":
            inputs |= {f"best.{name}": tensor for name, tensor in take_rows(self.best, rows).items()}
        inputs |= {name: _pick(getattr(self, name), rows) for name in ("y", "s", "class_weight", "seeds")}
        names = ["positions", "counts", "coefficients", "shares"]
        inputs |= {name: getattr(launch, name) for name in names}
        if launch.noise is not None:
            inputs["noise"] = launch.noise
        if self.affine is not None:
            inputs["affine"] = self.affine if rows is None else self.affine.index_select(1, rows)
        return inputs

    def put_back(self, launch, results):
        """Write the state and the averaged weights back after a step."""
        put_rows(self.state, launch.rows, under_prefix(results, "state."))
        put_rows(self.best, launch.rows, under_prefix(results, "best."))

    def close_epoch(self, logged, logits):
        """Write the epoch into the histories, and keep the weights of those who are better than ever."""
        improved = []
        for i, (member, numbers) in enumerate(zip(self.members, logged)):
            scores = None if logits[i] is None else logits[i, : sum(map(len, member.valid))]
            if member.end_epoch(numbers, scores) or member.clf.keep == "last":
                improved.append(i)
        if improved and self.members[0].clf.keep != "ema":
            rows = torch.tensor(improved, device=self.resident.x.device)
            for name, tensor in self.best.items():
                tensor[rows] = self.state[name][rows]

    def release(self, members):
        """Let members go and close the ranks."""
        gone = {id(member) for member in members}
        states = []
        for member in members:
            i = next(i for i, other in enumerate(self.members) if other is member)
            best = {name: tensor[i].cpu() for name, tensor in self.best.items()}
            lost = member.clf.keep == "best" and bool(member.valid) and member.best_epoch is None
            states.append(None if lost else self.graph.module_state(best))
        stay = [i for i, member in enumerate(self.members) if id(member) not in gone]
        rows = torch.tensor(stay, dtype=torch.int64, device=self.resident.x.device)
        self.state, self.best = take_rows(self.state, rows), take_rows(self.best, rows)
        self.members = [self.members[i] for i in stay]
        self._forget_recordings()
        if self.members:
            self._tabulate()
        return states

    def save(self):
        """Return where everybody stands."""
        tensors = {**self.state, **{f"best.{name}": tensor for name, tensor in self.best.items()}}
        return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _pick(table, rows):
    return table if rows is None else table[rows]


def _send(arrays, dtype, device):
    """Move arrays to the device as one, and hand them out one by one."""
    if not arrays:
        return iter(())
    flat = torch.as_tensor(np.concatenate([array.ravel() for array in arrays])).to(dtype)
    parts = flat.to(device, non_blocking=True).split([array.size for array in arrays])
    return (part.view(array.shape) for part, array in zip(parts, arrays))
