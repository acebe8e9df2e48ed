"""What censoring costs: the time of a censored epoch over that of a plain one.

Three nets, each against itself without censoring:

callback   Braindecode's own EEGClassifier and EEGNet, with and without the Censor callback
stock      CensoredEEGClassifier(fast=False)
fast       CensoredEEGClassifier, whose plain epoch is several times cheaper, so that the same censoring weighs more

Each setting has a plain twin. Both train side by side on one core, an epoch of the one, an epoch of the other, so that
whatever else the machine does falls on both: of two cores the one with the busier neighbour would be slower, and turns
shorter than an epoch would measure how long it takes to get one's data back into the cache. An epoch is everything
skorch does in it: batches, critic, encoder, validation, logging. On a CPU with one thread its processor time is taken,
which other processes lengthen less than the wall clock; on a GPU the wall clock. Printed are the quartiles over epochs
of the ratio of the twins' times.

    python benchmarks/front.py                      # CPU, one thread
    python benchmarks/front.py --net fast --device cuda
    python benchmarks/front.py --epochs 6 --shape 16 128 --net fast --method adv    # a glance
"""

import argparse
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from braindecode import EEGClassifier
from stopwatch import Stopwatch

from braindecode_censor import PAPER, Censor, CensoredEEGClassifier

METHODS = ("adv", "mmd", "pairmmd", "mige", "began")
MODES = ("marginal", "conditional", "complementary")
TARGETS = {"callback": 1.2, "stock": 1.2, "fast": 1.5}
LEFT_OUT = 4


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
    x = rng.standard_normal((len(subjects), *shape), dtype="float32")
    return x, np.arange(len(subjects)) % 2, subjects


class TakeTurns(Stopwatch):
    """Time every epoch, and let another training do one before the next.

    Parameters
    ----------
    may_start, may_other_start : threading.Semaphore
        Acquired before an epoch, and released after it.
    """

    def __init__(self, may_start, may_other_start):
        super().__init__()
        self.may_start, self.may_other_start = may_start, may_other_start

    def on_epoch_begin(self, net, **kwargs):
        """Wait, then start the clock.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        self.may_start.acquire()
        super().on_epoch_begin(net)

    def on_epoch_end(self, net, **kwargs):
        """Stop the clock, and let the other start.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        super().on_epoch_end(net)
        self.may_other_start.release()


def train(kind, data, method, mode, device, n_epochs, watch):
    """Train a net.

    Parameters
    ----------
    kind : {"callback", "stock", "fast"}
        Which net.
    data : tuple of ndarray
        X, y and subjects.
    method, mode : str or None, str
        Censoring method, or None, and mode. Conditional censoring draws its batches per class too; so does its twin.
    device : str
        Where to train.
    n_epochs : int
        How long.
    watch : TakeTurns
        Times the epochs.
    """
    x, y, subjects = data
    options = {"max_epochs": n_epochs, "device": device, "verbose": 0}
    try:
        if kind == "callback":
            censor = [] if method is None else [Censor(method, mode, weight=0.1, subjects=subjects)]
            options |= {"module__final_layer_with_constraint": True, "batch_size": 64}
            EEGClassifier("EEGNet", callbacks=[*censor, watch], **options).fit(x, y)
        else:
            options |= {"fast": kind == "fast", "callbacks": [("watch", watch)]}
            settings = {"penalty": method, "censoring": mode, "weight": 0.1}
            net = CensoredEEGClassifier(**{**PAPER, **settings, **options})
            net.fit(x, y, subjects=subjects)
    finally:  # also after an error nobody is left waiting
        watch.may_other_start.release(n_epochs)


def measure(kind, data, method, mode, n_epochs, device):
    """Train with and without censoring, epoch by epoch in turn.

    Parameters
    ----------
    kind : {"callback", "stock", "fast"}
        Which net.
    data : tuple of ndarray
        X, y and subjects.
    method, mode : str
        Censoring method and mode.
    n_epochs : int
        Epochs, after a few that are left out: the first ones compute what is kept for all others.
    device : str
        Where to train.

    Returns
    -------
    seconds : ndarray of shape (2, n_epochs)
        Of plain and of censored epochs.
    """
    plain_turn, censored_turn = threading.Semaphore(1), threading.Semaphore(0)
    watches = TakeTurns(plain_turn, censored_turn), TakeTurns(censored_turn, plain_turn)
    with ThreadPoolExecutor(2) as pool:
        trainings = [
            pool.submit(train, kind, data, one, mode, device, LEFT_OUT + n_epochs, watch)
            for one, watch in zip((None, method), watches)
        ]
    for training in trainings:
        training.result()
    return np.array([watch.times_[LEFT_OUT:] for watch in watches])


def report(kind, seconds):
    """Print the ratios as rows of a Markdown table.

    Parameters
    ----------
    kind : {"callback", "stock", "fast"}
        Which net.
    seconds : dict of ndarray
        From :func:`measure`.
    """
    for method in dict.fromkeys(method for method, _ in seconds):
        cells = []
        for mode in MODES:
            plain, censored = seconds[method, mode]
            low, middle, high = np.quantile(censored / plain, [0.25, 0.5, 0.75])
            cells.append(f"{middle:.2f} ({low:.2f} .. {high:.2f})")
        print(f"| {kind} | {method} | " + " | ".join(cells) + f" | {TARGETS[kind]} |", flush=True)


def main():
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--net", choices=("callback", "stock", "fast"), action="append")
    parser.add_argument("--shape", type=int, nargs=2, action="append", metavar=("CHANNELS", "SAMPLES"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--method", choices=METHODS, action="append")
    arguments = parser.parse_args()
    methods = arguments.method or METHODS
    torch.set_num_threads(arguments.threads)
    if arguments.threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    warnings.simplefilter("ignore")
    for shape in arguments.shape or [(16, 128), (56, 260)]:
        print(
            f"\n{shape[0]} channels x {shape[1]} samples, {arguments.device}, batch 64, median (quartiles)\n"
        )
        data = make_data(tuple(shape))
        print("| net | method | " + " | ".join(MODES) + " | at most |\n|" + "---|" * 6)
        for kind in arguments.net or ("callback", "stock", "fast"):
            seconds = {
                (method, mode): measure(kind, data, method, mode, arguments.epochs, arguments.device)
                for method in methods
                for mode in MODES
            }
            plain = np.median([seconds[method, "marginal"][0] for method in methods])
            print(f"| {kind} | plain, ms | {1e3 * plain:.0f} | | | |")
            report(kind, seconds)


if __name__ == "__main__":
    main()
