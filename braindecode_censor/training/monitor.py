"""Numbers of an epoch's censoring for the history, read from the device once."""

import math

import torch

__all__ = ["N_MONITORED", "EpochMonitor", "name_numbers"]

#: Trials per epoch on which the critic's accuracy is computed, few enough to cost no time.
N_MONITORED = 128


class EpochMonitor:
    """The numbers of an epoch's batches, read from the device once at its end."""

    def __init__(self):
        self.numbers = []
        self.batches = []
        self.n_trials = 0

    def add(self, numbers, z, s, y):
        """Add a batch."""
        self.numbers.append(numbers)
        if self.n_trials < N_MONITORED:
            self.batches.append((z, s, y))
            self.n_trials += len(z)

    def report(self, penalty):
        """Return the epoch's numbers."""
        if not self.numbers:
            return {}
        mean, critic_loss = (torch.stack(values).mean().item() for values in zip(*self.numbers))
        numbers = {"penalty": mean}
        if not math.isnan(critic_loss):
            numbers["critic_loss"] = critic_loss
        # A critic's accuracy needs many trials. Other diagnostics depend on the size of the sample: one batch.
        batches = self.batches if getattr(penalty, "has_critic", True) else self.batches[:1]
        z, s, y = (torch.cat(values) for values in zip(*batches))
        with torch.no_grad():
            diagnostics = penalty.diagnostics(z, s, y)
        return numbers | name_numbers({name: value.item() for name, value in diagnostics.items()}, s)


def name_numbers(diagnostics, s):
    """Return diagnostics under their names in the history, with the chance level of an accuracy."""
    numbers = {name.removeprefix("subject_"): value for name, value in diagnostics.items()}
    if "accuracy" in numbers:
        numbers["chance"] = (torch.bincount(s).max() / len(s)).item()
    return numbers
