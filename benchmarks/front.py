"""Time of a censored epoch over that of a plain one.

Three nets, each against itself without censoring:

callback   Braindecode's own EEGClassifier and EEGNet, with and without the Censor callback
stock      CensoredEEGClassifier(fast=False)
fast       CensoredEEGClassifier, whose plain epoch is several times shorter, so that the ratio is larger

Every censored training has a plain one beside it. They take turns on one core, an epoch each, so that other work of the
machine slows down both; shorter turns would measure how long it takes to fill the cache again. An epoch is everything
skorch does in it: batches, critic, encoder, validation, logging. Its time is processor time on a CPU with one thread,
wall time otherwise. Printed are the quartiles over epochs of the ratio of the two times.

    python benchmarks/front.py                      # CPU, one thread
    python benchmarks/front.py --net fast --device cuda
    python benchmarks/front.py --epochs 6 --shape 16 128 --net fast --method adv    # quick
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
GOALS = {"callback": 1.2, "stock": 1.2, "fast": 1.5}
N_WARM_UP = 4


def make_data(shape, n_subjects=9, n_trials=80):
    """Return noise of the right size."""
    rng = np.random.default_rng(0)
    subjects = np.repeat(np.arange(1, n_subjects + 1), n_trials)
    x = rng.standard_normal((len(subjects), *shape), dtype="float32")
    return x, np.arange(len(subjects)) % 2, subjects


class TakeTurns(Stopwatch):
    """Time every epoch, and let another training do one before the next."""

    def __init__(self, may_start, may_other_start):
        super().__init__()
        self.may_start, self.may_other_start = may_start, may_other_start

    def on_epoch_begin(self, net, **kwargs):
        """Wait, then start the clock."""
        self.may_start.acquire()
        super().on_epoch_begin(net)

    def on_epoch_end(self, net, **kwargs):
        """Stop the clock, and let the other start."""
        super().on_epoch_end(net)
        self.may_other_start.release()


def train(net_type, data, method, mode, device, n_epochs, watch):
    """Train a net of one of the three types."""
    x, y, subjects = data
    options = {"max_epochs": n_epochs, "device": device, "verbose": 0}
    try:
        if net_type == "callback":
            censor = [] if method is None else [Censor(method, mode, weight=0.1, subjects=subjects)]
            options |= {"module__final_layer_with_constraint": True, "batch_size": 64}
            EEGClassifier("EEGNet", callbacks=[*censor, watch], **options).fit(x, y)
        else:
            options |= {"fast": net_type == "fast", "callbacks": [("watch", watch)]}
            settings = {"penalty": method, "censoring": mode, "weight": 0.1}
            net = CensoredEEGClassifier(**{**PAPER, **settings, **options})
            net.fit(x, y, subjects=subjects)
    finally:  # After an error the other training must not wait.
        watch.may_other_start.release(n_epochs)


def measure(net_type, data, method, mode, n_epochs, device):
    """Return the seconds of plain and of censored epochs, taken in turn."""
    plain_turn, censored_turn = threading.Semaphore(1), threading.Semaphore(0)
    watches = TakeTurns(plain_turn, censored_turn), TakeTurns(censored_turn, plain_turn)
    with ThreadPoolExecutor(2) as pool:
        trainings = [
            pool.submit(train, net_type, data, one, mode, device, N_WARM_UP + n_epochs, watch)
            for one, watch in zip((None, method), watches)
        ]
    for training in trainings:
        training.result()
    return np.array([watch.times_[N_WARM_UP:] for watch in watches])


def report(net_type, seconds):
    """Print the ratios as rows of a Markdown table."""
    for method in dict.fromkeys(method for method, _ in seconds):
        cells = []
        for mode in MODES:
            plain, censored = seconds[method, mode]
            low, middle, high = np.quantile(censored / plain, [0.25, 0.5, 0.75])
            cells.append(f"{middle:.2f} ({low:.2f} .. {high:.2f})")
        print(f"| {net_type} | {method} | " + " | ".join(cells) + f" | {GOALS[net_type]} |", flush=True)


def main():
    """Print the tables."""
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
        print("| net | method | " + " | ".join(MODES) + " | goal |\n|" + "---|" * 6)
        for net_type in arguments.net or ("callback", "stock", "fast"):
            seconds = {
                (method, mode): measure(net_type, data, method, mode, arguments.epochs, arguments.device)
                for method in methods
                for mode in MODES
            }
            plain = np.median([seconds[method, "marginal"][0] for method in methods])
            print(f"| {net_type} | plain, ms | {1e3 * plain:.0f} | | | |")
            report(net_type, seconds)


if __name__ == "__main__":
    main()
