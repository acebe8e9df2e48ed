"""What an epoch's censoring leaves in the history, read from the device once."""

import math

import torch

__all__ = ["N_MONITORED", "EpochMonitor", "name_numbers"]

#: Trials per epoch on which the critic's accuracy is taken: enough to read it, too few to cost time.
N_MONITORED = 128


class EpochMonitor:
    """The numbers of an epoch's batches, read from the device once at its end."""

    def __init__(self):
        self.numbers = []
        self.seen = []
        self.n_seen = 0

    def add(self, numbers, z, s, y):
        """Take in a batch."""
        self.numbers.append(numbers)
        if self.n_seen < N_MONITORED:
            self.seen.append((z, s, y))
            self.n_seen += len(z)

    def report(self, penalty):
        """Return the epoch's numbers."""
        if not self.numbers:
            return {}
        mean, critic_loss = (torch.stack(values).mean().item() for values in zip(*self.numbers))
        numbers = {"penalty": mean}
        if not math.isnan(critic_loss):
            numbers["critic_loss"] = critic_loss
        # To count a critic's hits takes many trials; a number that depends on the size of a sample is of one batch.
        seen = self.seen if getattr(penalty, "has_critic", True) else self.seen[:1]
        z, s, y = (torch.cat(parts) for parts in zip(*seen))
        with torch.no_grad():
            found = penalty.diagnostics(z, s, y)
        return numbers | name_numbers({name: value.item() for name, value in found.items()}, s)


def name_numbers(diagnostics, s):
    """Name diagnostics as the history does, and put chance beside an accuracy."""
    numbers = {name.removeprefix("subject_"): value for name, value in diagnostics.items()}
    if "accuracy" in numbers:
        numbers["chance"] = (torch.bincount(s).max() / len(s)).item()
    return numbers
