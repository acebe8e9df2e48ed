"""The clock that the benchmarks share, and a callback that reads it at both ends of an epoch."""

import time

import torch
from skorch.callbacks import Callback


def now(device):
    """Return the clock of a device.

    Parameters
    ----------
    device : str or torch.device
        "cpu" or "cuda".

    Returns
    -------
    seconds : float
        On a GPU the wall clock, once the device has finished; on a CPU with one thread processor time, which other
        processes lengthen less.
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
        """Start.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        self.start_ = now(net.device)

    def on_epoch_end(self, net, **kwargs):
        """Stop.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        self.times_.append(now(net.device) - self.start_)
