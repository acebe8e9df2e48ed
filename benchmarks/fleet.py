"""A fleet against the same trainings one after another, on the same device, and how far it is from being exact.

Three ways to train the same replicas, one epoch each in turn, so that other work of the machine slows down all alike:

stock    Braindecode's EEGClassifier (with the Censor callback where there is a penalty), one training at a time
single   CensoredEEGClassifier, one training at a time
fleet    all replicas as one group

Printed are milliseconds per replica and step: wall time on a GPU, processor time on a CPU with one thread. An epoch
is everything that is done in it; the stock net does not validate. "Δ weights" is the largest difference between a
replica's weights and those of CensoredEEGClassifier.fit after two epochs without dropout, in single precision. Times on
a GPU are with TensorFloat-32 products on all sides, differences without.

    python benchmarks/fleet.py --device cuda --growth               # a row per method
    python benchmarks/fleet.py --device cuda --compile --methods none --growth
    python benchmarks/fleet.py --device cuda --methods --grown none mmd adv    # growth tables
    python benchmarks/fleet.py --device cuda --networks             # other networks than EEGNet
    python benchmarks/fleet.py --quick                              # tiny, on a CPU

With PYTHONPATH an older checkout is measured.
"""

import argparse
import platform
import statistics
import warnings
from datetime import date

import numpy as np
import torch
from braindecode import EEGClassifier
from stopwatch import Stopwatch, now

from braindecode_censor import PAPER, Censor, CensoredEEGClassifier
from braindecode_censor.fleet import engine, train_fleet

METHODS = (None, "mmd", "adv", "mige", "began")
SIZES = {
    "cpu": {"replicas": 8, "subjects": 8, "chans": 16, "times": 128, "batch": 64},
    "cuda": {"replicas": 256, "subjects": 14, "chans": 56, "times": 260, "batch": 128},
    "networks": {"replicas": 64, "subjects": 8, "chans": 22, "times": 512, "batch": 64},
    "quick": {"replicas": 2, "subjects": 3, "chans": 4, "times": 64, "batch": 16},
}
GROWTH = {
    "replicas": {"cpu": (1, 2, 4, 8, 16), "cuda": (1, 4, 16, 64, 256)},
    "subjects": (4, 8, 16, 32, 64),
    "chans": (8, 16, 32, 64),
    "batch": (32, 64, 128, 256, 512),
}
# Steps of an epoch: on a GPU those of ErrP (14 training subjects with 340 trials each); few where only ratios of
# rows matter.
N_STEPS = {"cpu": 6, "cuda": 37}
N_STEPS_GROWTH = {"cpu": 6, "cuda": 12}
N_STEPS_NETWORKS = 8
#: Braindecode's networks with their arguments for signals of 128 Hz and 4 s.
NETWORKS = {
    "ShallowFBCSPNet": {},
    "Deep4Net": {},
    "EEGSimpleConv": {"module__sfreq": 128},
    "EEGConformer": {},
    "ATCNet": {"module__sfreq": 128, "module__input_window_seconds": 4.0},
    "CTNet": {"module__sfreq": 128},
}


def make_data(sizes, n_steps):
    """Return noise of the right size: signals, classes and subjects, of which the last one validates."""
    rng = np.random.default_rng(0)
    n_trials = max(8, -(-n_steps * sizes["batch"] // sizes["subjects"]))
    subjects = np.repeat(np.arange(1, sizes["subjects"] + 2), n_trials)
    X = rng.standard_normal((len(subjects), sizes["chans"], sizes["times"]), dtype=np.float32)
    return X, rng.integers(0, 2, len(subjects)), subjects


def make_replicas(method, sizes, device, **options):
    """Return estimators that differ in their seeds."""
    shared = {**PAPER, "penalty": method, "weight": 0.1, "batch_size": sizes["batch"], "device": device}
    shared |= {"valid_subject": sizes["subjects"] + 1, **options}
    return [CensoredEEGClassifier(**shared, random_state=seed) for seed in range(sizes["replicas"])]


def make_stock(clf, subjects):
    """Return Braindecode's classifier for the same training."""
    callbacks = [("watch", Stopwatch())]
    if clf.penalty is not None:
        callbacks.append(("censor", Censor(clf.penalty, clf.censoring, clf.weight, subjects=subjects)))
    options = {k: v for k, v in clf.get_params(deep=False).items() if k.startswith("module__")}
    if clf.module == "EEGNet":
        options["module__final_layer_with_constraint"] = True
    return EEGClassifier(
        clf.module,
        **options,
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.AdamW,
        train_split=None,
        batch_size=clf.batch_size,
        max_epochs=1,
        device=clf.device,
        callbacks=callbacks,
        verbose=0,
    )


class Turns:
    """Epochs of a fleet, each followed by one of the stock net and one of the estimator."""

    def __init__(self, clf, data):
        self.device, self.data = clf.device, data
        self.stock_data = tuple(array[data[2] != clf.valid_subject] for array in data)
        self.stock = make_stock(clf, self.stock_data[2])
        params = {k: v for k, v in clf.get_params(deep=False).items() if k != "callbacks"}
        self.single = CensoredEEGClassifier(
            **{**params, "max_epochs": 1, "callbacks": [("watch", Stopwatch())]}
        )
        self.fleet_seconds = []

    def measure(self, clfs, repeats, **options):
        """Return milliseconds per replica and step (stock, single, fleet): medians of epochs after the first."""
        train_epoch = engine.train_epoch

        def take_turns(groups):
            began = now(self.device)
            finished = train_epoch(groups)
            self.fleet_seconds.append(now(self.device) - began)
            self.stock.partial_fit(*self.stock_data[:2])
            self.single.partial_fit(*self.data[:2], subjects=self.data[2])
            return finished

        engine.train_epoch = take_turns
        n_epochs, train_idx = 1 + repeats, np.arange(len(self.data[1]))
        tasks = [(k, clf.set_params(max_epochs=n_epochs), train_idx) for k, clf in enumerate(clfs)]
        try:
            replicas = list(train_fleet(tasks, *self.data, group_size=len(tasks), **options))
        finally:
            engine.train_epoch = train_epoch
        n_steps = replicas[0].clf.step_ // n_epochs
        n_steps_stock = -(-len(self.stock_data[1]) // self.stock.batch_size)
        stock, single = (dict(net.callbacks_)["watch"].times_ for net in (self.stock, self.single))
        columns = (stock, n_steps_stock), (single, n_steps), (self.fleet_seconds, n_steps * len(tasks))
        return [1e3 * statistics.median(seconds[1:]) / n for seconds, n in columns]


def largest_differences(method, sizes, device, data, **options):
    """Return the largest differences of weights and of probabilities between two replicas and single fits."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    clfs = make_replicas(method, {**sizes, "replicas": 2}, device, max_epochs=2, module__drop_prob=0.0)
    singles = make_replicas(method, {**sizes, "replicas": 2}, device, max_epochs=2, module__drop_prob=0.0)
    X, y, subjects = data
    tasks = [(k, clf, np.arange(len(y))) for k, clf in enumerate(clfs)]
    weights = probabilities = 0.0
    for replica in train_fleet(tasks, X, y, subjects, **options):
        single, state = singles[replica.key].fit(X, y, subjects=subjects), replica.clf.module_.state_dict()
        for name, tensor in single.module_.state_dict().items():
            weights = max(weights, (tensor.double() - state[name].double()).abs().max().item())
        difference = np.abs(single.predict_proba(X) - replica.clf.predict_proba(X)).max()
        probabilities = max(probabilities, float(difference))
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    return weights, probabilities


def print_heading(first, *more):
    """Print the head of a Markdown table."""
    cells = [first, "stock ms", "single ms", "fleet ms", "stock/fleet", "single/fleet", *more]
    print("\n| " + " | ".join(cells) + " |\n|" + "---|" * len(cells), flush=True)


def print_row(name, times, *more):
    """Print a row of the table."""
    stock, single, fleet = times
    cells = [name, *(f"{ms:.3g}" for ms in times), f"{stock / fleet:.1f}", f"{single / fleet:.2f}", *more]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def peak_memory(device):
    """Return the largest memory of the device since the last call, in words."""
    if device == "cpu":
        return ""
    memory = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return f"{memory:.1f}"


def compare(method, sizes, n_steps, args, **options):
    """Return the times of all three ways."""
    data, clfs = make_data(sizes, n_steps), make_replicas(method, sizes, args.device, **options)
    return Turns(clfs[0], data).measure(clfs, args.repeats, compile=args.compile)


def run_tables(args, sizes):
    """Print the methods and the growth tables."""
    if args.methods:
        print_heading("method", "Δ weights", "Δ probabilities", "GiB")
    n_steps = 2 if args.quick else N_STEPS[args.device]
    for method in args.methods:
        times, memory = compare(method, sizes, n_steps, args), peak_memory(args.device)
        data = make_data(sizes, n_steps)
        differences = largest_differences(method, sizes, args.device, data, compile=args.compile)
        print_row(method or "none", times, *(f"{value:.0e}" for value in differences), memory)
    for name in args.growth:
        values = GROWTH[name][args.device] if name == "replicas" else GROWTH[name]
        for method in args.grown:
            print_heading(f"{name} ({method or 'none'})")
            for value in values:
                print_row(value, compare(method, {**sizes, name: value}, N_STEPS_GROWTH[args.device], args))


def run_networks(args):
    """Print a row for each network."""
    print_heading("network", "GiB")
    sizes = SIZES["networks"] | ({"replicas": args.replicas} if args.replicas else {})
    for name, options in NETWORKS.items():
        times = compare(None, sizes, N_STEPS_NETWORKS, args, module=name, **options)
        print_row(name, times, peak_memory(args.device))


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [method or "none" for method in METHODS]
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--methods", nargs="*", choices=names, default=names)
    parser.add_argument(
        "--grown", nargs="*", choices=names, default=["none"], help="methods of the growth tables"
    )
    parser.add_argument("--growth", nargs="*", choices=GROWTH, default=list(GROWTH), help="what grows")
    parser.add_argument("--replicas", type=int, help="replicas of the group")
    parser.add_argument("--networks", action="store_true", help="other networks than EEGNet")
    parser.add_argument("--compile", action="store_true", help="torch.compile encoders and optimiser")
    parser.add_argument("--quick", action="store_true", help="tiny sizes and no growth, to see that it runs")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    args.methods, args.grown = (
        [None if name == "none" else name for name in names] for names in (args.methods, args.grown)
    )
    args.growth = [] if args.quick else args.growth
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    sizes = SIZES["quick" if args.quick else args.device]
    sizes = sizes | ({"replicas": args.replicas} if args.replicas else {})
    machine = torch.cuda.get_device_name() if args.device == "cuda" else f"{platform.machine()}, one thread"
    print(
        f"{date.today()}, torch {torch.__version__}, {machine}, {SIZES['networks'] if args.networks else sizes}"
    )
    if args.networks:
        run_networks(args)
    else:
        run_tables(args, sizes)


if __name__ == "__main__":
    main()
