"""Clock of the benchmarks, and a callback that reads it at both ends of an epoch."""

import time

import torch
from skorch.callbacks import Callback


def now(device):
    """Return the seconds of a device's clock.

    On a GPU it is the wall clock, once the device has finished. On a CPU with one thread it is processor time, which
    other processes lengthen less.
    """
    if str(device).startswith("cuda"):
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


class Stopwatch(Callback):
    """Collect the seconds of every epoch in ``times_``."""

    def __init__(self):
        self.times_ = []

    def on_epoch_begin(self, net, **kwargs):
        """Start."""
        self.start_ = now(net.device)

    def on_epoch_end(self, net, **kwargs):
        """Stop."""
        self.times_.append(now(net.device) - self.start_)
