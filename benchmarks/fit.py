"""Time of a whole fit against the same protocol with nothing but Braindecode, and a check that it is the same fit.

Both sides get the same arrays and do all of the paper's protocol: standardise, hold out a subject, weigh classes,
AdamW with a falling learning rate, validate every epoch, keep the best one. The stock side is Braindecode's
EEGClassifier with its EEGNet and torch's loader. Fits take turns; with one thread the time is processor time, which
other processes lengthen less. Both start from one seed and draw the same batches and dropout, so that losses
and scores can be compared. Batches are therefore shuffled, not balanced.

    python benchmarks/fit.py                                  # ErrP's size: 5440 trials x 56 x 260
    python benchmarks/fit.py --trials 840 --shape 61 128 --epochs 20 --repeats 3
    python benchmarks/fit.py --profile                        # fractions of the time of an epoch, both ways
    PYTHONPATH=OLDER_CHECKOUT python benchmarks/fit.py        # another version of the package
"""

import argparse
import time
import warnings

import numpy as np
import torch
from braindecode import EEGClassifier
from sklearn.metrics import balanced_accuracy_score
from skorch.callbacks import EarlyStopping, LRScheduler
from skorch.helper import predefined_split
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import TensorDataset

from braindecode_censor import PAPER, CensoredEEGClassifier, SubjectNormalizer

# Beginnings of the names of a profiler's events; the first that fits counts.
CATEGORIES = {
    "batches": ("enumerate(DataLoader)", "aten::index", "aten::stack"),
    "optimiser, Python": ("Optimizer.step", "aten::_foreach", "aten::_fused", "aten::lerp_", "aten::addc"),
    "convolutions": ("aten::mkldnn_conv", "aten::convolution", "aten::conv", "aten::_conv"),
    "Fourier transforms": ("aten::_fft", "aten::fft"),
    "dropout": ("aten::bernoulli_", "aten::uniform_", "aten::lt", "aten::dropout", "aten::native_dropout"),
    "batch norm": ("aten::native_batch_norm", "aten::batch_norm", "aten::_batch_norm"),
    "matrix products": ("aten::bmm", "aten::mm", "aten::addmm"),
}


def standardize(x):
    """Standardise every channel of every trial, as the paper's protocol does."""
    return SubjectNormalizer(PAPER["normalize"]).fit_transform(x, subjects=np.ones(len(x)))


def make_data(n_trials, shape, n_subjects=16, seed=0):
    """Return noise with a response that depends on the class, so that there is a score to compare."""
    response = np.random.default_rng(0).normal(size=(shape[0], 1)) * np.hanning(shape[1])
    rng = np.random.default_rng(seed)
    subjects = 1 + np.arange(n_trials) * n_subjects // n_trials
    y = (rng.random(n_trials) < 0.3).astype(int)  # the rare class of error potentials
    x = rng.standard_normal((n_trials, *shape), dtype="float32")
    x[y == 1] += 0.5 * response.astype("float32")
    return x, y, subjects


def fit_ours(data, args):
    """Fit the estimator."""
    options = {**PAPER, "max_epochs": args.epochs, "batch_size": args.batch, "valid_subject": 1}
    return CensoredEEGClassifier(penalty=None, sampling="shuffle", **options).fit(*data)


def fit_stock(data, args):
    """Do the same with Braindecode and skorch alone."""
    x, y, subjects = data
    x = standardize(x)
    train, valid = subjects != 1, subjects == 1
    inverse = 1 / np.bincount(y[train])
    torch.manual_seed(0)
    return EEGClassifier(
        "EEGNet",
        criterion__weight=torch.tensor(inverse / inverse.sum(), dtype=torch.float32),
        optimizer=torch.optim.AdamW,
        lr=1e-3,
        max_epochs=args.epochs,
        batch_size=args.batch,
        iterator_valid__batch_size=512,
        train_split=predefined_split(TensorDataset(torch.as_tensor(x[valid]), torch.as_tensor(y[valid]))),
        callbacks=[
            ("schedule", LRScheduler("LambdaLR", lr_lambda=lambda epoch: (epoch + 1) ** -0.5)),
            ("best", EarlyStopping(patience=args.epochs, threshold=0, load_best=True)),
        ],
        module__batch_norm_momentum=0.1,
        module__final_layer_with_constraint=True,
        verbose=0,
    ).fit(x[train], y[train])


def compare(data, args):
    """Time both in turns, and print the ratio and the largest differences."""
    clock = time.process_time if args.threads == 1 else time.perf_counter
    fits, seconds = {}, {"stock": [], "ours": []}
    for _ in range(args.repeats):
        for name, fit in (("stock", fit_stock), ("ours", fit_ours)):
            start = clock()
            fits[name] = fit(data, args)
            seconds[name].append(clock() - start)
    ratios = np.divide(seconds["stock"], seconds["ours"])
    stock, ours = fits["stock"], fits["ours"]
    x, y, _ = make_data(600, args.shape, seed=1)
    proba = {"stock": stock.predict_proba(standardize(x)), "ours": ours.predict_proba(x)}
    scores = {name: balanced_accuracy_score(y, p.argmax(1)) for name, p in proba.items()}
    print(f"stock {np.median(seconds['stock']):.1f} s, ours {np.median(seconds['ours']):.1f} s")
    print(f"ratio {np.median(ratios):.1f} ({ratios.min():.1f} .. {ratios.max():.1f})")
    for name in ("train_loss", "valid_loss"):
        gap = np.abs(np.subtract(stock.history[:, name], ours.history[:, name])).max()
        print(f"largest difference of {name} {gap:.1e}")
    print(f"largest difference of predicted probabilities {np.abs(proba['stock'] - proba['ours']).max():.1e}")
    print(f"balanced accuracy on other trials: stock {scores['stock']:.4f}, ours {scores['ours']:.4f}")


def profile_epoch(data, args, fit, name):
    """Print fractions of the time of a fit as a row of a Markdown table."""
    fit(data, args)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        fit(data, args)
    sums = dict.fromkeys([*CATEGORIES, "the rest"], 0.0)
    for event in profiler.key_averages():
        matches = (category for category, names in CATEGORIES.items() if event.key.startswith(names))
        sums[next(matches, "the rest")] += event.self_cpu_time_total
    total = sum(sums.values())
    epoch = total / 1e3 / args.epochs
    print(f"| {name} | {epoch:.0f} | " + " | ".join(f"{value / total:.0%}" for value in sums.values()) + " |")


def main():
    """Print the comparison or the profile."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=5440)
    parser.add_argument("--shape", type=int, nargs=2, default=(56, 260), metavar=("CHANNELS", "SAMPLES"))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--profile", action="store_true", help="840 trials of several shapes, under a profiler"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    warnings.simplefilter("ignore")
    if not args.profile:
        size = f"{args.trials} trials x {args.shape[0]} channels x {args.shape[1]} samples"
        print(f"{size}, {args.epochs} epochs, batch {args.batch}, {args.threads} threads")
        compare(make_data(args.trials, args.shape), args)
        return
    print(
        "| shape, path | ms an epoch | "
        + " | ".join([*CATEGORIES, "the rest"])
        + " |\n|"
        + "---|" * (len(CATEGORIES) + 3)
    )
    args.epochs = 8
    for shape in ((61, 128), (8, 640), (8, 700), (56, 260)):
        data = make_data(840, shape, 8)
        for name, fit in (("stock", fit_stock), ("ours", fit_ours)):
            profile_epoch(data, args, fit, f"{shape[0]} × {shape[1]}, {name}")


if __name__ == "__main__":
    main()
