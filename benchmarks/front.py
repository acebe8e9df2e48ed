"""What censoring costs: the time of a censored epoch over that of a plain one.

Three nets, each against itself without censoring:

callback   Braindecode's own EEGClassifier and EEGNet, with and without the Censor callback
stock      CensoredEEGClassifier(fast=False)
fast       CensoredEEGClassifier, whose plain epoch is several times cheaper, so that the same censoring weighs more

Each setting has a plain twin, and both are trained in turns, a few epochs each, now the one first, now the other:
whatever else the machine does falls on both, and both have trained equally long. An epoch is everything skorch does
in it: batches, critic, encoder, validation, logging. On a CPU with one thread its processor time is taken, which other
processes lengthen less than the wall clock; on a GPU the wall clock. Other processes can only lengthen it, so of the
epochs of a turn the fastest counts; printed are the quartiles over turns of the ratio of two such epochs.

    python benchmarks/front.py                      # CPU, one thread
    python benchmarks/front.py --net fast --device cuda --repeats 40
"""

import argparse
import warnings

import numpy as np
import torch
from braindecode import EEGClassifier
from stopwatch import Stopwatch

from braindecode_censor import Censor, CensoredEEGClassifier

METHODS = ("adv", "mmd", "pairmmd", "mige", "began")
MODES = ("marginal", "conditional", "complementary")
TARGET = {"adv": 1.2, "mmd": 1.2}
OTHERS = 1.35


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


def make_trainer(kind, data, method, mode, device):
    """Return a function that trains one more epoch, and the stopwatch of these epochs.

    Parameters
    ----------
    kind : {"callback", "stock", "fast"}
        Which net.
    data : tuple of ndarray
        X, y and subjects.
    method, mode : str or None, str
        Censoring method, or None, and mode.
    device : str
        Where to train.

    Returns
    -------
    train : callable
        Trains an epoch.
    watch : Stopwatch
        Times it.
    """
    x, y, subjects = data
    watch = Stopwatch()
    if kind == "callback":
        censor = [] if method is None else [Censor(method, mode, weight=0.1, subjects=subjects)]
        options = {
            "module__final_layer_with_constraint": True,
            "max_epochs": 1,
            "batch_size": 64,
            "verbose": 0,
        }
        net = EEGClassifier("EEGNet", callbacks=[*censor, watch], device=device, **options)
        return lambda: net.partial_fit(x, y), watch
    # So many epochs in a row as it takes for the moments of the trials to be computed once, not in every batch.
    options = {"max_epochs": 8 if kind == "fast" else 1, "fast": kind == "fast", "device": device}
    options["callbacks"] = [("watch", watch)]
    net = CensoredEEGClassifier(penalty=method, censoring=mode, weight=0.1, **options)
    return lambda: net.partial_fit(x, y, subjects=subjects), watch


def measure(kind, shape, settings, repeats, device):
    """Train all settings in turns and collect the seconds of an epoch in every turn.

    Parameters
    ----------
    kind : {"callback", "stock", "fast"}
        Which net.
    shape : tuple of int
        Channels and samples.
    settings : list of tuple
        Methods and modes.
    repeats : int
        Turns per setting, after one that is left out.
    device : str
        Where to train.

    Returns
    -------
    seconds : dict of ndarray of shape (repeats, 2)
        By method and mode, of a plain and of a censored epoch.
    """
    data = make_data(shape)
    # Conditional censoring draws its batches per class too; its plain twin does the same.
    twins = {
        (method, mode): [make_trainer(kind, data, one, mode, device) for one in (None, method)]
        for method, mode in settings
    }
    seconds = {setting: [] for setting in settings}
    for turn in range(repeats + 1):
        for setting, trainers in twins.items():
            order = (0, 1) if turn % 2 else (1, 0)
            times = {k: take_turn(*trainers[k]) for k in order}
            if turn:
                seconds[setting].append((times[0], times[1]))
    return {setting: np.array(values) for setting, values in seconds.items()}


def take_turn(train, watch):
    """Train, and return how long an epoch takes.

    Parameters
    ----------
    train : callable
        Trains some epochs.
    watch : Stopwatch
        Times them.

    Returns
    -------
    seconds : float
        Of the fastest of these epochs.
    """
    watch.times_.clear()
    train()
    return min(watch.times_)


def report(kind, seconds):
    """Print the ratios as rows of a Markdown table.

    Parameters
    ----------
    kind : {"callback", "stock", "fast"}
        Which net.
    seconds : dict of ndarray
        From :func:`measure`.
    """
    for method in METHODS:
        cells = []
        for mode in MODES:
            own = seconds[method, mode]
            low, middle, high = np.quantile(own[:, 1] / own[:, 0], [0.25, 0.5, 0.75])
            cells.append(f"{middle:.2f} ({low:.2f} .. {high:.2f})")
        print(
            f"| {kind} | {method} | " + " | ".join(cells) + f" | {TARGET.get(method, OTHERS)} |", flush=True
        )


def main():
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--net", choices=("callback", "stock", "fast"), action="append")
    parser.add_argument("--shape", type=int, nargs=2, action="append", metavar=("CHANNELS", "SAMPLES"))
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    settings = [(method, mode) for method in METHODS for mode in MODES]
    for shape in arguments.shape or [(16, 128), (56, 260)]:
        print(
            f"\n{shape[0]} channels x {shape[1]} samples, {arguments.device}, batch 64, median (quartiles)\n"
        )
        print("| net | method | " + " | ".join(MODES) + " | at most |\n|" + "---|" * 6)
        for kind in arguments.net or ("callback", "stock", "fast"):
            seconds = measure(kind, tuple(shape), settings, arguments.repeats, arguments.device)
            plain = np.median([own[:, 0] for (_, mode), own in seconds.items() if mode == "marginal"])
            print(f"| {kind} | plain, ms | {1e3 * plain:.0f} | | | |")
            report(kind, seconds)


if __name__ == "__main__":
    main()
