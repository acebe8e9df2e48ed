"""A fleet against the same trainings one after another, on the same device, with the exactness check beside it.

Three ways to train the same members, one epoch each in turn, so that whatever else the machine does falls on all:

stock   Braindecode's EEGClassifier and EEGNet (with the Censor callback where there is a penalty), one by one
alone   CensoredEEGClassifier, one by one
fleet   the members as one group

Printed is the time per member and step: processor time on a CPU with one thread, the wall clock on a GPU. An epoch
is everything that is done in it; the stock net does not even validate. "Δ weights" is the largest difference between a
member's weights and those of CensoredEEGClassifier.fit after two epochs, dropout on (on a GPU off: the fleet's
masks are its own there), in single precision. Times on a GPU are with TensorFloat-32 products on all three sides,
errors without.

    python benchmarks/fleet.py                                  # one row per method, then the growth tables
    python benchmarks/fleet.py --device cuda --compile          # the GPU's sizes
    python benchmarks/fleet.py --quick                          # the quick preset on simulated subjects
    python benchmarks/fleet.py --wall                           # its search by the clock, on all cores of the machine
"""

import argparse
import os
import platform
import statistics
import tempfile
import time
import warnings
from datetime import date

import numpy as np
import torch
from braindecode import EEGClassifier
from skorch.utils import params_for
from stopwatch import Stopwatch, now

from braindecode_censor import PAPER, Censor, CensoredEEGClassifier
from braindecode_censor.datasets import default_paradigm, get_dataset
from braindecode_censor.fleet import Member, train_fleet
from braindecode_censor.fleet.epoch import train_epoch
from braindecode_censor.fleet.group import Group
from braindecode_censor.fleet.resident import People, Resident
from braindecode_censor.paper.data import Recording
from braindecode_censor.paper.grid import get_preset, protocol_of
from braindecode_censor.paper.jobs import Job, make_estimator
from braindecode_censor.run.backends import Backend
from braindecode_censor.storage.trainings import TrainingCache
from braindecode_censor.trials.normalizations import zscore

METHODS = (None, "mmd", "adv", "mige", "began")
SIZES = {
    "cpu": {"members": 8, "subjects": 8, "chans": 16, "times": 128, "batch": 64},
    "cuda": {"members": 256, "subjects": 14, "chans": 56, "times": 260, "batch": 128},
}
GROWTH = {
    "cpu": {
        "members": (1, 2, 4, 8, 16),
        "subjects": (4, 8, 16, 32, 64),
        "chans": (8, 16, 32, 64),
        "batch": (32, 64, 128, 256, 512),
    },
    "cuda": {
        "members": (1, 4, 16, 64, 256),
        "subjects": (4, 8, 16, 32, 64),
        "chans": (8, 16, 32, 64),
        "batch": (32, 64, 128, 256, 512),
    },
}
# Steps of an epoch: on a GPU those of ErrP (14 training subjects with 340 trials each); few where only ratios of
# rows matter.
STEPS = {"cpu": 6, "cuda": 37}
FEW_STEPS = {"cpu": 6, "cuda": 12}


def noise(members, subjects, chans, times, batch, steps=6):
    """Return noise of the right size: one subject beside those trained on, and some batches of trials.

    Parameters
    ----------
    members, subjects, chans, times, batch : int
        Sizes.
    steps : int
        Steps of an epoch, about.

    Returns
    -------
    X, y, labels : ndarray
        Signals, classes and subjects.
    """
    rng = np.random.default_rng(0)
    per_subject = max(8, -(-steps * batch // subjects))
    labels = np.repeat(np.arange(1, subjects + 2), per_subject)
    X = rng.standard_normal((len(labels), chans, times), dtype=np.float32)
    return X, rng.integers(0, 2, len(labels)), labels


def stock_net(clf, labels):
    """Return Braindecode's classifier for the same training.

    Parameters
    ----------
    clf : CensoredEEGClassifier
        What to imitate.
    labels : ndarray
        Subjects.

    Returns
    -------
    net : EEGClassifier
        With a callback that censors where `clf` does.
    """
    callbacks = [("watch", Stopwatch())]
    if clf.penalty is not None:
        options = params_for("penalty", vars(clf))
        callbacks.append(
            ("censor", Censor(clf.penalty, clf.censoring, clf.weight, subjects=labels, **options))
        )
    module = {k: v for k, v in clf.get_params(deep=False).items() if k.startswith("module__")}
    if clf.module == "EEGNet":
        module["module__final_layer_with_constraint"] = True
    return EEGClassifier(
        clf.module,
        **module,
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.AdamW,
        train_split=None,
        batch_size=clf.batch_size,
        max_epochs=1,
        device=clf.device,
        callbacks=callbacks,
        verbose=0,
    )


class Contest:
    """The three ways side by side.

    Parameters
    ----------
    clfs : list of CensoredEEGClassifier
        The members; sequential trainings are timed on the first.
    X, y, labels : ndarray
        Signals, classes and subjects.
    options : dict
        Options of the group.
    """

    def __init__(self, clfs, X, y, labels, options):
        self.device = clfs[0].device
        seen = np.arange(len(y))
        people = People(X, labels)
        self.members = [Member(k, clf, seen, people, y) for k, clf in enumerate(clfs)]
        self.group = Group(self.members, Resident(clfs[0], people), **options)
        train, _ = clfs[0].split_
        self.stock = stock_net(clfs[0], labels[train])
        self.stock_data = self.group.resident.x[train].cpu().numpy(), y[train]
        self.alone = CensoredEEGClassifier(
            **{**_params(clfs[0]), "max_epochs": 1, "callbacks": [("watch", Stopwatch())]}
        )
        self.data = X, y, labels
        self.n_steps = len(self.members[0].draw_batches())

    def repeat(self, fleet=True):
        """Train one epoch each way.

        Parameters
        ----------
        fleet : bool
            Whether the fleet trains too.

        Returns
        -------
        times : tuple of float
            Milliseconds per member and step: stock, alone, fleet.
        """
        self.stock.partial_fit(*self.stock_data)
        stock = dict(self.stock.callbacks_)["watch"].times_[-1] / -(
            -len(self.stock_data[1]) // self.stock.batch_size
        )
        X, y, labels = self.data
        self.alone.partial_fit(X, y, subjects=labels)
        alone = dict(self.alone.callbacks_)["watch"].times_[-1] / self.n_steps
        if not fleet:
            return 1e3 * stock, 1e3 * alone
        began = now(self.device)
        train_epoch([self.group])
        taken = (now(self.device) - began) / self.n_steps / len(self.members)
        return 1e3 * stock, 1e3 * alone, 1e3 * taken

    def measure(self, repeats, fleet=True):
        """Return the medians of some repeats, the first left out.

        Parameters
        ----------
        repeats : int
            How many.
        fleet : bool
            Whether the fleet trains too.

        Returns
        -------
        times : list of float
            Milliseconds per member and step: stock, alone, fleet.
        """
        self.repeat(fleet)
        return [statistics.median(times) for times in zip(*(self.repeat(fleet) for _ in range(repeats)))]


def _params(clf):
    return {k: v for k, v in clf.get_params(deep=False).items() if k != "callbacks"}


def make_members(method, sizes, device, **options):
    """Return estimators that differ in their seeds.

    Parameters
    ----------
    method : str or None
        Penalty.
    sizes : dict
        Sizes.
    device : str
        Device.
    **options
        Further arguments of the estimators.

    Returns
    -------
    clfs : list of CensoredEEGClassifier
        Not fitted.
    """
    shared = {
        **PAPER,
        "penalty": method,
        "weight": 0.1,
        "batch_size": sizes["batch"],
        "device": device,
        "max_epochs": 500,
    }
    shared |= {"valid_subject": sizes["subjects"] + 1, **options}
    return [CensoredEEGClassifier(**shared, random_state=seed) for seed in range(sizes["members"])]


def largest_errors(method, sizes, device, options):
    """Compare two members with the estimator's own fit.

    The class scores hardly depend on the scale of the temporal filters, which the batch norm after them takes out
    again; its gradient is nearly zero, and AdamW makes full steps of what rounding leaves of it. So weights tell
    more about rounding than probabilities do.

    Parameters
    ----------
    method : str or None
        Penalty.
    sizes : dict
        Sizes.
    device : str
        Device.
    options : dict
        Options of the group.

    Returns
    -------
    weights, probabilities : float
        Largest differences between weights, and between the predicted probabilities of all trials.
    """
    X, y, labels = noise(**sizes)
    sizes = {**sizes, "members": 2}
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    more = {"max_epochs": 2, **({} if device == "cpu" else {"module__drop_prob": 0.0})}
    tasks = [(k, clf, np.arange(len(y))) for k, clf in enumerate(make_members(method, sizes, device, **more))]
    members = {member.key: member.clf for member in train_fleet(tasks, X, y, labels, **options)}
    weights = probabilities = 0.0
    for k, clf in enumerate(make_members(method, sizes, device, **more)):
        state = members[k].module_.state_dict()
        for name, tensor in clf.fit(X, y, subjects=labels).module_.state_dict().items():
            weights = max(weights, (tensor.double() - state[name].double()).abs().max().item())
        difference = np.abs(clf.predict_proba(X) - members[k].predict_proba(X)).max()
        probabilities = max(probabilities, difference)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    return weights, probabilities


def row(name, times, *more):
    """Print a row of a table.

    Parameters
    ----------
    name : object
        First cell.
    times : list of float
        Stock, alone, fleet.
    *more : object
        Further cells.
    """
    stock, alone, fleet = times
    cells = [
        name,
        f"{stock:.3g}",
        f"{alone:.3g}",
        f"{fleet:.3g}",
        f"{stock / fleet:.1f}",
        f"{alone / fleet:.2f}",
    ]
    print("| " + " | ".join(map(str, [*cells, *more])) + " |", flush=True)


def heading(first, *more):
    """Print the head of a table.

    Parameters
    ----------
    first : str
        Name of the first column.
    *more : str
        Names of further columns.
    """
    cells = [first, "stock ms", "alone ms", "fleet ms", "stock/fleet", "alone/fleet", *more]
    print("\n| " + " | ".join(cells) + " |\n|" + "---|" * len(cells))


def run_tables(args, sizes, options):
    """Print the methods and the growth tables.

    Parameters
    ----------
    args : argparse.Namespace
        Command line.
    sizes : dict
        Sizes.
    options : dict
        Options of the group.
    """
    heading("method", "Δ weights", "Δ probabilities")
    for method in args.methods:
        data = noise(**sizes, steps=STEPS[args.device])
        contest = Contest(make_members(method, sizes, args.device), *data, options)
        times = contest.measure(args.repeats)
        errors = largest_errors(method, sizes, args.device, options)
        row(method or "none", times, *(f"{error:.0e}" for error in errors))
        if args.device != "cpu":
            print(f"memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
            torch.cuda.reset_peak_memory_stats()
    for name, values in GROWTH[args.device].items():
        if name not in args.growth:
            continue
        for method in args.grown:
            heading(f"{name} ({method or 'none'})")
            for value in values:
                grown = {**sizes, name: value}
                data = noise(**grown, steps=FEW_STEPS[args.device])
                contest = Contest(make_members(method, grown, args.device), *data, options)
                row(value, contest.measure(args.repeats))


def run_quick(args, options):
    """Print the quick preset: every setting of the grid, on its own data and sizes, all folds as one group.

    Parameters
    ----------
    args : argparse.Namespace
        Command line.
    options : dict
        Options of the group.
    """
    dataset = get_dataset("simulated")
    recording = Recording(dataset, default_paradigm(dataset))
    training = {**protocol_of("quick"), "device": args.device, "patience": None}
    n = min(args.members or 8, len(recording.all_subjects))
    print(
        f"simulated subjects: {recording.X.shape[1]} x {recording.X.shape[2]}, {len(recording.all_subjects)} subjects"
    )
    heading("setting")
    totals = np.zeros(3)
    settings = {(s.method, s.mode): s for s in get_preset("quick").grid}
    for setting in settings.values():
        clfs = [make_estimator(setting, seed, training, recording.all_subjects) for seed in range(n)]
        seen = recording.subjects != recording.all_subjects[0]
        data = recording.X[seen], recording.y[seen], recording.subjects[seen]
        times = Contest(clfs, *data, options).measure(args.repeats)
        row(setting.name, times)
        totals += times
    row("all", totals)


def run_wall(args):
    """Print how long the quick preset's search takes by the clock: stock trainings one after another, and ours.

    A stock training may use all cores, through torch's threads; the fleet has one process on each. Both train the
    same settings for the same number of epochs; half of the stock trainings come before the fleet's, half after.
    Starting the processes is not counted.

    Parameters
    ----------
    args : argparse.Namespace
        Command line.
    """
    cores = os.cpu_count()
    dataset = get_dataset("simulated")
    recording = Recording(dataset, default_paradigm(dataset))
    training = {**protocol_of("quick"), "max_epochs": args.epochs, "patience": None}
    backend = Backend(jobs=cores, engine="fleet")
    test, grid = recording.all_subjects[0], get_preset("quick").grid
    print(
        f"simulated subjects: {recording.X.shape}, {args.epochs} epochs, {cores} cores, seconds by the clock"
    )
    with tempfile.TemporaryDirectory() as folder:
        cache = TrainingCache(folder)
        jobs = [Job(setting, seed=0, test_subject=test) for setting in grid]
        backend.run(jobs, recording, {**training, "max_epochs": 1}, cache)  # starts the processes
        torch.set_num_threads(cores)
        stock = sum(_train_stock(job, recording, training) for job in jobs[::2])
        began = time.perf_counter()
        backend.run(jobs, recording, training, cache)
        fleet = time.perf_counter() - began
        torch.set_num_threads(cores)
        stock += sum(_train_stock(job, recording, training) for job in jobs[1::2])
    print("\n| trainings | stock s | fleet s | stock/fleet |\n|---|---|---|---|")
    print(f"| {len(jobs)} | {stock:.1f} | {fleet:.1f} | {stock / fleet:.1f} |")


def _train_stock(job, recording, training):
    """Seconds that Braindecode's classifier takes for the epochs of a job."""
    seen = recording.subjects != job.test_subject
    clf = make_estimator(job.setting, job.seed, training, recording.all_subjects)
    codes, subjects = recording.y[seen], recording.subjects[seen]
    clf.classes_inferred_ = np.unique(codes)
    clf._split(codes, subjects)
    train, _ = clf.split_
    X = zscore(recording.X[seen][train].astype(np.float32))
    net = stock_net(clf, subjects[train]).set_params(max_epochs=training["max_epochs"])
    began = time.perf_counter()
    net.fit(X, codes[train])
    return time.perf_counter() - began


def main():
    """Run from the shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--methods", nargs="*", default=[m or "none" for m in METHODS])
    parser.add_argument("--grown", nargs="*", default=["none"], help="methods of the growth tables")
    parser.add_argument(
        "--growth", nargs="*", choices=GROWTH["cpu"], default=list(GROWTH["cpu"]), help="what grows"
    )
    parser.add_argument("--members", type=int, help="members of the group")
    parser.add_argument(
        "--vectorise", choices=["yes", "no"], help="vmap over the encoders or not; the device decides"
    )
    parser.add_argument("--compile", action="store_true", help="torch.compile encoders and optimiser")
    parser.add_argument("--quick", action="store_true", help="the quick preset")
    parser.add_argument("--wall", action="store_true", help="the quick preset's search by the clock")
    parser.add_argument("--epochs", type=int, default=10, help="epochs of --wall")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    args.methods, args.grown = (
        [None if m == "none" else m for m in names] for names in (args.methods, args.grown)
    )
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    sizes = {**SIZES[args.device], **({"members": args.members} if args.members else {})}
    options = {"compile": args.compile, "vectorise": {"yes": True, "no": False}.get(args.vectorise)}
    machine = torch.cuda.get_device_name() if args.device == "cuda" else f"{platform.machine()}, one thread"
    print(f"{date.today()}, torch {torch.__version__}, {machine}, {'' if args.quick or args.wall else sizes}")
    if args.wall:
        run_wall(args)
    elif args.quick:
        run_quick(args, options)
    else:
        run_tables(args, sizes, options)


if __name__ == "__main__":
    main()
