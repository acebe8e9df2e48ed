"""Any network in a fleet against the same trainings one by one, and the fast EEGNet's figures in the same run.

Networks: 64 members each, without a penalty; stock is Braindecode's EEGClassifier, alone is CensoredEEGClassifier, both
one training at a time. The fleet has three columns, of which the first is what `train_fleet` does on a GPU:

products   all members as one, their convolutions as matrix products unless they see 128 channels or more
grouped    all members as one, their convolutions as torch batches them: as many groups as there are members
looped     member by member within one process, which is what `train_fleet` does on a CPU

EEGNet: 256 members at 56 x 260, without a penalty, with MMD, with Adv, and with augmentation and averaged weights; the
stock net does neither. Its fleet is compiled on a GPU.

Printed are milliseconds per member and step, medians of some epochs, the first left out; also written to networks.csv
row by row.

    python benchmarks/networks.py --device cuda --out results/networks     # a few minutes
    python benchmarks/networks.py --quick                                  # tiny, on a CPU
"""

import argparse
import csv
import gc
import statistics
import time
import warnings
from contextlib import nullcontext
from datetime import date
from pathlib import Path

import torch
from fleet import SIZES, STEPS, Contest, make_members, noise
from stopwatch import now

from braindecode_censor.fleet import network
from braindecode_censor.fleet.convolution import ConvolveByProducts
from braindecode_censor.fleet.epoch import train_epoch
from braindecode_censor.fleet.group import Group

#: Arguments of the networks, beside their defaults, for signals of 128 Hz.
NETWORKS = {
    "ShallowFBCSPNet": {},
    "Deep4Net": {},
    "EEGSimpleConv": {"module__sfreq": 128},
    "EEGConformer": {},
    "ATCNet": {"module__sfreq": 128, "module__input_window_seconds": 4.0},
    "CTNet": {"module__sfreq": 128},
}
NETWORK_SIZES = {"members": 64, "subjects": 8, "chans": 22, "times": 512, "batch": 64}
NETWORK_STEPS = 8
RECIPE = {"augment": "standard", "keep": "ema", "normalize": "subject", "schedule": "one_cycle"}
RECIPE |= {"max_epochs": None, "max_steps": 20000}
EEGNETS = {"none": (None, {}), "mmd": ("mmd", {}), "adv": ("adv", {}), "augmentation + EMA": (None, RECIPE)}
WAYS = ("products", "grouped", "looped")
COLUMNS = ["network", "setting", "members", "stock_ms", "alone_ms", "products_ms", "grouped_ms", "looped_ms"]
COLUMNS += ["stock_over_fleet", "alone_over_fleet", "memory_gib", "seconds"]


class Table:
    """Rows, printed and written as they come."""

    def __init__(self, path):
        self.path = path
        print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(",".join(COLUMNS) + "\n")

    def add(self, **row):
        """Add a row."""
        cells = [row.get(name, "") for name in COLUMNS]
        cells = [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells]
        print("| " + " | ".join(cells) + " |", flush=True)
        if self.path is not None:
            with self.path.open("a", newline="") as file:
                csv.writer(file).writerow(cells)


def time_way(contest, way, repeats):
    """Return what an epoch of the fleet takes one way."""
    network.ConvolveByProducts = nullcontext if way == "grouped" else ConvolveByProducts
    try:
        group = Group(contest.members, contest.group.resident, vectorise=way != "looped")
        times = []
        for _ in range(1 + repeats):
            began = now(contest.device)
            train_epoch([group])
            times.append(now(contest.device) - began)
        return 1e3 * statistics.median(times[1:]) / contest.n_steps / len(contest.members)
    except torch.cuda.OutOfMemoryError:
        return float("nan")
    finally:
        network.ConvolveByProducts = ConvolveByProducts


def clear(device):
    """Forget what the last row left on the device."""
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def memory(device):
    """Return the largest memory since the last row."""
    return "" if device == "cpu" else torch.cuda.max_memory_allocated() / 2**30


def run_networks(args, table):
    """Add a row for each network."""
    sizes = {**NETWORK_SIZES, "members": args.members or NETWORK_SIZES["members"]}
    if args.quick:
        sizes |= {"members": args.members or 2, "chans": 4, "batch": 16}
    data = noise(**sizes, steps=2 if args.quick else NETWORK_STEPS)
    for name in args.networks:
        began = time.perf_counter()
        options = {"module": name, "max_epochs": 10**6, **NETWORKS.get(name, {})}
        contest = Contest(make_members(None, sizes, args.device, **options), *data, {"vectorise": False})
        stock, alone = contest.measure(args.repeats, fleet=False)
        repeats = [args.repeats, *[1] * (len(args.ways) - 1)]  # the others are for comparison
        times = {f"{way}_ms": time_way(contest, way, n) for way, n in zip(args.ways, repeats)}
        first = next(iter(times.values()))
        table.add(
            network=name,
            setting="none",
            members=sizes["members"],
            stock_ms=stock,
            alone_ms=alone,
            **times,
            stock_over_fleet=stock / first,
            alone_over_fleet=alone / first,
            memory_gib=memory(args.device),
            seconds=time.perf_counter() - began,
        )
        del contest
        clear(args.device)


def run_eegnet(args, table):
    """Add the rows of the fast EEGNet."""
    sizes = SIZES["cuda"] if args.device != "cpu" else SIZES["cpu"]
    if args.quick:
        sizes = {**sizes, "members": 2, "batch": 16}
    data = noise(**sizes, steps=2 if args.quick else STEPS[args.device])
    for setting, (method, options) in EEGNETS.items():
        began = time.perf_counter()
        clfs = make_members(method, sizes, args.device, **options)
        contest = Contest(clfs, *data, {"compile": args.device != "cpu" and not args.eager})
        stock, alone, fleet = contest.measure(args.repeats)
        table.add(
            network="EEGNet",
            setting=setting,
            members=sizes["members"],
            stock_ms=stock,
            alone_ms=alone,
            products_ms=fleet,
            stock_over_fleet=stock / fleet,
            alone_over_fleet=alone / fleet,
            memory_gib=memory(args.device),
            seconds=time.perf_counter() - began,
        )
        del contest, clfs
        clear(args.device)


def main():
    """Run from the shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--members", type=int, help="members of each network's fleet")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), help="names of Braindecode's models")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--no-eegnet", action="store_true", help="leave EEGNet's rows out")
    parser.add_argument("--eager", action="store_true", help="do not compile EEGNet")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--out", type=Path, help="folder for networks.csv")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    machine = torch.cuda.get_device_name() if args.device == "cuda" else "one thread of a CPU"
    print(f"{date.today()}, torch {torch.__version__}, {machine}, {NETWORK_SIZES}", flush=True)
    table = Table(None if args.out is None else args.out / "networks.csv")
    run_networks(args, table)
    if not args.no_eegnet:
        run_eegnet(args, table)


if __name__ == "__main__":
    main()
