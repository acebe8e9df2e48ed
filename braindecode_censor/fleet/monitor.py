"""Numbers of an epoch for the histories, gathered on the device and read once."""

import math

import numpy as np
import torch

from braindecode_censor.fleet.stack import take_rows
from braindecode_censor.fleet.step import critic_state
from braindecode_censor.training.monitor import N_MONITORED, name_numbers

__all__ = ["Monitor"]


class Monitor:
    """Numbers that skorch and :class:`~braindecode_censor.Censor` write, for a whole group."""

    def __init__(self, n_replicas, diagnoses=True):
        self.diagnoses = diagnoses
        self.n_sampled = np.zeros(n_replicas, dtype=int)  # trials in `samples`
        self.steps, self.samples = [], []

    def add(self, replica_idx, numbers, z, s, y):
        """Record one step of some replicas; tensors are copied, because the next step may overwrite them."""
        self.steps.append((replica_idx, z.shape[1], numbers.clone()))
        if self.diagnoses and (self.n_sampled[replica_idx] < N_MONITORED).any():
            self.samples.append((replica_idx, z.clone(), s.clone(), y.clone()))
            self.n_sampled[replica_idx] += z.shape[1]

    def report(self, graph, state):
        """Return the numbers of each replica."""
        numbers = torch.cat([numbers for *_, numbers in self.steps], 1).double().cpu().numpy()
        replica_idx = np.concatenate([rows for rows, *_ in self.steps])
        weights = np.concatenate([np.full(len(rows), n) for rows, n, _ in self.steps])
        logged = []
        for i in range(len(self.n_sampled)):
            mask = replica_idx == i
            loss, penalty, critic = numbers[:, mask]
            row = {"train_loss": float(np.average(loss, weights=weights[mask]))}
            if graph.penalty is not None:
                row["subject_penalty"] = float(penalty.mean())
            if not math.isnan(critic.mean()):
                row["subject_critic_loss"] = float(critic.mean())
            logged.append(row)
        if graph.penalty is not None:
            self._diagnose(graph, state, logged)
        return logged

    def _diagnose(self, graph, state, logged):
        """Add the diagnostics; replicas that took the same steps are computed together."""
        by_steps = {}
        for i in range(len(self.n_sampled)):
            steps = tuple(k for k, sample in enumerate(self.samples) if i in sample[0])
            by_steps.setdefault(steps, []).append(i)
        for steps, replica_idx in by_steps.items():
            device, batches = state["theta"].device, []
            for k in steps if graph.penalty.has_critic else steps[:1]:
                rows, *tensors = self.samples[k]
                rows = torch.tensor([rows.tolist().index(i) for i in replica_idx], device=device)
                batches.append([tensor[rows] for tensor in tensors])
            z, s, y = (torch.cat(tensors, 1) for tensors in zip(*batches))
            critics = critic_state(take_rows(state, torch.tensor(replica_idx, device=device)))
            diagnostics = graph.captured_diagnose({"z": z, "s": s, "y": y, **critics})
            diagnostics = {name: values.tolist() for name, values in diagnostics.items()}
            for k, (i, labels) in enumerate(zip(replica_idx, s.cpu())):
                named = name_numbers({name: values[k] for name, values in diagnostics.items()}, labels)
                logged[i] |= {f"subject_{name}": value for name, value in named.items()}
