"""Replicas of one graph, side by side: their state, batches and best weights, and their arrival and removal."""

from typing import NamedTuple

import numpy as np
import torch

from braindecode_censor.fleet.graph import Graph
from braindecode_censor.fleet.stack import put_rows, take_rows, under_prefix
from braindecode_censor.training.rules import average_share

__all__ = ["Group", "Launch"]


class Launch(NamedTuple):
    """One step of some replicas of a group, on the device."""

    replica_idx: np.ndarray
    rows: torch.Tensor | None  # the same on the device; None for all replicas
    positions: torch.Tensor  # of the trials, (n_rows, n_trials)
    tensors: dict  # step counts, coefficients, weights of the averages, and noise if there is any


class Group:
    """Stacked replicas of one graph; `compile` is True or a backend of ``torch.compile``."""

    def __init__(self, replicas, trials, states=None, compile=False):
        self.trials, self.replicas = trials, []
        self.graph = Graph(replicas[0], compile)
        self.state, self.best = {}, {}
        self.add(replicas, states)

    def __len__(self):
        return len(self.replicas)

    def add(self, replicas, states=None):
        """Append replicas, with states from a checkpoint or None."""
        initial = [self.graph.initial_state(replica) for replica in replicas]
        states = [state or begin for state, begin in zip(states or [None] * len(replicas), initial)]
        for name in initial[0]:
            self._append(self.state, name, [state[name] for state in states])
            if name == "theta" or name.startswith("buffer."):
                self._append(self.best, name, [state.get(f"best.{name}", state[name]) for state in states])
        self.replicas += replicas
        self._replicas_changed()

    def _append(self, stack, name, rows):
        rows = torch.stack([row.to(self.trials.x.device) for row in rows])
        stack[name] = torch.cat([stack[name], rows]) if name in stack else rows

    def can_be_captured(self):
        """Return whether a step needs nothing from the CPU."""
        waits = self.graph.penalty is not None and self.graph.penalty.waits
        return not waits and self.trials.can_be_captured()

    def _replicas_changed(self):
        """Clear the captures, and copy the labels and options of the replicas to the device."""
        self.trials.captured_steps.clear()  # also those of other groups, which step together with this one
        self.graph.clear_captures()
        if not self.replicas:
            return
        x, replicas = self.trials.x, self.replicas
        weights = [replica.clf.criterion_.train_weight for replica in replicas]
        ones = torch.ones(len(replicas[0].clf.classes_))
        self.tables = {
            "y": torch.as_tensor(np.stack([replica.y for replica in replicas]), device=x.device),
            "s": torch.as_tensor(np.stack([replica.s for replica in replicas]), device=x.device),
            "seeds": torch.tensor([replica.clf.random_state for replica in replicas], device=x.device),
            "class_weight": torch.stack([ones if weight is None else weight for weight in weights]).to(x),
        }
        if self.trials.by_population:
            self.tables["affine"] = self.trials.affine(replicas)
        valid = [np.concatenate([*replica.valid, np.zeros(0, dtype=np.int64)]) for replica in replicas]
        longest = max(map(len, valid))
        valid = [np.pad(positions, (0, longest - len(positions))) for positions in valid]
        self.valid = torch.as_tensor(np.stack(valid), device=x.device)

    def plan_epoch(self):
        """Draw all batches; replicas whose batches have equal size take their step together."""
        drawn = [replica.draw_batches() for replica in self.replicas]
        steps = [replica.advance(len(batches)) for replica, batches in zip(self.replicas, drawn)]
        plans = []
        for k in range(max(map(len, drawn))):
            by_size = {}
            for i, batches in enumerate(drawn):
                if k < len(batches):
                    by_size.setdefault(len(batches[k]), []).append(i)
            for n, rows in by_size.items():
                positions = np.concatenate([drawn[i][k] for i in rows]).reshape(-1, n)
                counts = np.array([steps[i][0][k] for i in rows])
                arrays = {"counts": counts, "coefficients": np.stack([steps[i][1][k] for i in rows])}
                arrays["average_weights"] = np.array([average_share(count) for count in counts])
                noise = [self.replicas[i].draw_noise() for i in rows]
                if noise[0] is not None:
                    arrays["noise"] = np.stack(noise)
                plans.append((np.array(rows), positions, arrays))
        on_device = iter(
            _send([a for *two, arrays in plans for a in (*two, *arrays.values())], self.trials.x)
        )
        launches = []
        for replica_idx, _, arrays in plans:
            rows, positions, tensors = next(on_device), next(on_device), dict(zip(arrays, on_device))
            rows = None if len(replica_idx) == len(self.replicas) else rows
            launches.append(Launch(replica_idx, rows, positions, tensors))
        return launches

    def step_inputs(self, launch):
        """Return all tensors that a step needs of this group."""
        tables = {f"state.{name}": tensor for name, tensor in self.state.items()} | self.tables
        if self.replicas[0].clf.keep == "ema":
            tables |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        return take_rows(tables, launch.rows) | launch.tensors | {"positions": launch.positions}

    def put_back(self, launch, results):
        """Write the state and the averaged weights back after a step."""
        put_rows(self.state, launch.rows, under_prefix(results, "state."))
        put_rows(self.best, launch.rows, under_prefix(results, "best."))

    def close_epoch(self, logged, logits):
        """Write the epoch into the histories, and keep the weights of the replicas that improved."""
        improved = []
        for i, (replica, numbers) in enumerate(zip(self.replicas, logged)):
            scores = None if logits[i] is None else logits[i, : sum(map(len, replica.valid))]
            if replica.end_epoch(numbers, scores) or replica.clf.keep == "last":
                improved.append(i)
        if improved and self.replicas[0].clf.keep != "ema":
            rows = torch.tensor(improved, device=self.trials.x.device)
            for name, tensor in self.best.items():
                tensor[rows] = self.state[name][rows]

    def release(self, replicas):
        """Remove finished replicas and compact the stacks; return the weights of each."""
        row_of = {id(replica): i for i, replica in enumerate(self.replicas)}
        rows = [row_of.pop(id(replica)) for replica in replicas]
        states = [{name: tensor[row].cpu() for name, tensor in self.best.items()} for row in rows]
        remaining = list(row_of.values())
        rows = torch.tensor(remaining, dtype=torch.int64, device=self.trials.x.device)
        self.state, self.best = take_rows(self.state, rows), take_rows(self.best, rows)
        self.replicas = [self.replicas[i] for i in remaining]
        self._replicas_changed()
        return [self.graph.module_state(state) for state in states]

    def save(self):
        """Return all stacks on the CPU."""
        tensors = {**self.state, **{f"best.{name}": tensor for name, tensor in self.best.items()}}
        return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _send(arrays, x):
    """Send arrays to the device of `x` as one tensor of integers and one of floats, so that no step waits for them."""
    sent = {}
    for kind, dtype in (("i", torch.int64), ("f", x.dtype)):
        alike = [array for array in arrays if array.dtype.kind == kind]
        flat = torch.as_tensor(np.concatenate([array.ravel() for array in alike])).to(dtype)
        pieces = flat.to(x.device, non_blocking=True).split([array.size for array in alike])
        sent[kind] = (piece.view(array.shape) for piece, array in zip(pieces, alike))
    return [next(sent[array.dtype.kind]) for array in arrays]
