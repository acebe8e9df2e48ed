"""What censoring costs: the time of a censored epoch over that of a plain one.

All nets are trained side by side, one epoch each in turn, so that whatever else the machine does falls on all
of them. An epoch is everything skorch does in it: batches, critic, encoder, validation, logging. On a CPU with
one thread its processor time is taken, which other processes do not lengthen; on a GPU the wall clock.

    python benchmarks/front.py                      # CPU, one thread
    python benchmarks/front.py --device cuda --repeats 40
"""

import argparse
import time
import warnings

import numpy as np
import torch
from skorch.callbacks import Callback

from braindecode_censor import CensoredEEGClassifier

METHODS = ("adv", "mmd", "pairmmd", "mige", "began")
MODES = ("marginal", "conditional", "complementary")
TARGET = {"adv": 1.2, "mmd": 1.2}
OTHERS = 1.35


class Stopwatch(Callback):
    """Time epochs, waiting for the device at both ends."""

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
        self.start_ = _now(net)

    def on_epoch_end(self, net, **kwargs):
        """Stop.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        self.times_.append(_now(net) - self.start_)


def _now(net):
    if str(net.device).startswith("cuda"):
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def make_data(shape, n_subjects=9, n_trials=80):
    """Return noise of the right size.

    Parameters
    ----------
    shape : tuple of int
        Channels and samples.
    n_subjects, n_trials : int
        Subjects, and trials of each; one subject validates.

    Returns
    -------
    X, y, subjects : ndarray
        Data for ``fit``.
    """
    rng = np.random.default_rng(0)
    subjects = np.repeat(np.arange(1, n_subjects + 1), n_trials)
    return rng.normal(size=(len(subjects), *shape)), np.arange(len(subjects)) % 2, subjects


def measure(shape, settings, repeats, **options):
    """Train all settings in turns and collect the seconds of every epoch.

    Parameters
    ----------
    shape : tuple of int
        Channels and samples.
    settings : dict of tuple
        Name to method and mode.
    repeats : int
        Epochs per setting; the first two are left out.
    **options
        Further arguments of the estimator.

    Returns
    -------
    seconds : dict of ndarray
        Name to seconds.
    """
    data = make_data(shape)
    nets = {}
    for name, (method, mode) in settings.items():
        net = CensoredEEGClassifier(
            penalty=method, censoring=mode, max_epochs=1, callbacks=[("watch", Stopwatch())], **options
        )
        nets[name] = net.fit(*data)
    for _ in range(repeats + 1):
        for net in nets.values():
            net.partial_fit(data[0], data[1], subjects=data[2])
    return {name: np.array(dict(net.callbacks_)["watch"].times_[2:]) for name, net in nets.items()}


def report(seconds, settings):
    """Print the ratios.

    Parameters
    ----------
    seconds : dict of ndarray
        Name to seconds.
    settings : dict of tuple
        Name to method and mode.

    Returns
    -------
    worst : float
        The largest ratio over its target.
    """
    worst = 0.0
    for name, (method, mode) in settings.items():
        if method is None:
            continue
        # Conditional censoring draws its batches per class too; its plain partner does the same.
        ratios = seconds[name] / seconds[f"plain-{mode}"]
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        target = TARGET.get(method, OTHERS)
        worst = max(worst, middle / target)
        verdict = "ok" if middle <= target else "over"
        print(f"{name:24s} {middle:5.2f}  ({low:.2f} .. {high:.2f})  target {target:.2f}  {verdict}")
    return worst


def main():
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--stock", action="store_true", help="Braindecode's EEGNet instead of the fast one")
    parser.add_argument("--shape", type=int, nargs=2, action="append", metavar=("CHANNELS", "SAMPLES"))
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    settings = {f"plain-{mode}": (None, mode) for mode in MODES}
    settings |= {f"{method}-{mode}": (method, mode) for method in METHODS for mode in MODES}
    for shape in arguments.shape or [(16, 128), (56, 260)]:
        print(f"\n{shape[0]} channels x {shape[1]} samples, {arguments.device}, batch 64, median (quartiles)")
        seconds = measure(
            tuple(shape), settings, arguments.repeats, device=arguments.device, fast=not arguments.stock
        )
        print(f"plain epoch of 10 steps: {1e3 * np.median(seconds['plain-marginal']):.1f} ms")
        report(seconds, settings)


if __name__ == "__main__":
    main()
