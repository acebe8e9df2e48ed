"""What an epoch leaves in the members' histories, gathered on the device and read once."""

import math

import numpy as np
import torch

from braindecode_censor.fleet.stack import take_rows
from braindecode_censor.fleet.step import critic_state
from braindecode_censor.training.monitor import N_MONITORED, name_numbers

__all__ = ["Monitor"]


class Monitor:
    """The numbers that skorch and :class:`~braindecode_censor.Censor` write, for a whole group."""

    def __init__(self, n_members, diagnoses=True):
        self.diagnoses = diagnoses
        self.seen = np.zeros(n_members, dtype=int)  # trials kept for the diagnostics
        self.launches, self.kept = [], []

    def add(self, members, numbers, z, s, y):
        """Take in one step of some members."""
        self.launches.append(
            (members, z.shape[1], numbers.clone())
        )  # the next step may overwrite all of these
        if self.diagnoses and (self.seen[members] < N_MONITORED).any():
            self.kept.append((members, z.clone(), s.clone(), y.clone()))
            self.seen[members] += z.shape[1]

    def report(self, graph, state):
        """Return each member's numbers."""
        found = torch.cat([numbers for *_, numbers in self.launches], 1).double().cpu().numpy()
        members = np.concatenate([rows for rows, *_ in self.launches])
        weights = np.concatenate([np.full(len(rows), n) for rows, n, _ in self.launches])
        logged = []
        for i in range(len(self.seen)):
            loss, penalty, critic = found[:, members == i]
            row = {"train_loss": float(np.average(loss, weights=weights[members == i]))}
            if graph.penalty is not None:
                row["subject_penalty"] = float(penalty.mean())
            if not math.isnan(critic.mean()):
                row["subject_critic_loss"] = float(critic.mean())
            logged.append(row)
        if graph.penalty is not None:
            self._diagnose(graph, state, logged)
        return logged

    def _diagnose(self, graph, state, logged):
        """Add the diagnostics; members that took the same steps are judged as one."""
        alike = {}
        for i in range(len(self.seen)):
            alike.setdefault(tuple(k for k, kept in enumerate(self.kept) if i in kept[0]), []).append(i)
        for steps, members in alike.items():
            steps = steps if graph.penalty.has_critic else steps[:1]
            rows = torch.tensor(members, device=state["theta"].device)
            parts = []
            for k in steps:
                places = torch.tensor(
                    [self.kept[k][0].tolist().index(i) for i in members], device=rows.device
                )
                parts.append([tensor[places] for tensor in self.kept[k][1:]])
            z, s, y = (torch.cat(tensors, 1) for tensors in zip(*parts))
            inputs = {"z": z, "s": s, "y": y, **critic_state(take_rows(state, rows))}
            diagnosed = {k: values.tolist() for k, values in graph.recorded_diagnose(inputs).items()}
            for place, (i, labels) in enumerate(zip(members, s.cpu())):
                numbers = name_numbers({name: v[place] for name, v in diagnosed.items()}, labels)
                logged[i] |= {f"subject_{name}": value for name, value in numbers.items()}
