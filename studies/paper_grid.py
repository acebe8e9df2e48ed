"""How long the paper's whole method takes as a fleet on one GPU, for a dataset of the size of ErrP.

The search trains all settings of the paper's table on one split; the cross-validation trains the baseline and three
settings of each method once per test subject. Which three is not known without real data, so three with different
modes stand in: more graphs, which is the expensive case. Noise trains as data. Some epochs are measured,
after one that sets up libraries; all epochs are alike, so 500 take 500 times as long, and nobody stops early.

    python benchmarks/paper_grid.py --device cuda              # two epochs of everything, and what 500 would take
    python benchmarks/paper_grid.py --device cuda --epochs 500 # all of it
    python benchmarks/paper_grid.py --small                    # does the script work?
"""

import argparse
import time
import warnings
from datetime import date

import numpy as np
import torch

from braindecode_censor.fleet import engine, train_fleet
from braindecode_censor.fleet.epoch import train_epoch
from braindecode_censor.paper.grid import BASELINE, METHODS, get_preset
from braindecode_censor.paper.jobs import make_estimator

PROTOCOL = 500  # epochs


def simulate(n_subjects, n_trials, n_chans, n_times):
    """Return noise."""
    rng = np.random.default_rng(0)
    subjects = np.repeat(np.arange(1, n_subjects + 1), n_trials)
    X = rng.standard_normal((len(subjects), n_chans, n_times), dtype=np.float32)
    return X, rng.integers(0, 2, len(subjects)), subjects


def make_tasks(stage, grid, subjects, training, epochs):
    """Return the trainings of a stage."""
    all_subjects = np.unique(subjects).tolist()
    tests, settings = all_subjects[:1], list(grid)
    if stage == "cross-validation":
        firsts = {(setting.method, setting.mode): setting for setting in grid}
        tests, settings = all_subjects, [BASELINE, *(s for s in firsts.values() if s.method in METHODS)]
    training = {**training, "max_epochs": epochs}
    pairs = [(test, setting) for setting in settings for test in tests]
    return [
        (k, make_estimator(setting, 0, training, all_subjects), np.flatnonzero(subjects != test))
        for k, (test, setting) in enumerate(pairs)
    ]


class Clock:
    """Takes the time of a fleet's epochs: of its members' first ones, and of the later ones."""

    def __init__(self):
        self.first, self.later = [], []

    def train(self, tasks, data):
        """Train a fleet."""
        engine.train_epoch = self._train_epoch
        return train_fleet(tasks, *data)

    def _train_epoch(self, groups):
        times = self.later if groups[0].members[0].epoch else self.first
        began = time.perf_counter()
        finished = train_epoch(groups)
        times.append(time.perf_counter() - began)
        return finished


def measure(stage, grid, data, training, epochs):
    """Print what a stage takes."""
    clock = Clock()
    began = time.perf_counter()
    members = list(clock.train(make_tasks(stage, grid, data[2], training, 1 + epochs), data))
    set_up = time.perf_counter() - began - sum(clock.first) - sum(clock.later)
    each = sum(clock.later) / epochs
    whole = set_up + PROTOCOL * each
    graphs = len({member.signature for member in members})
    memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else float("nan")
    cells = f"{set_up:.1f} | {each:.2f} | {whole / 60:.0f} | {memory:.1f}"
    print(f"| {stage} | {len(members)} | {graphs} | {cells} |", flush=True)
    return whole


def main():
    """Run from the shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--epochs", type=int, default=2, help="epochs to measure")
    parser.add_argument("--small", action="store_true", help="five subjects, eight channels, few settings")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_float32_matmul_precision("high")
    preset = get_preset("paper")
    data = simulate(5, 40, 8, 64) if args.small else simulate(16, 340, 56, 260)
    grid = preset.grid[::40] if args.small else preset.grid
    training = {**preset.training, "device": args.device, "batch_size": 32 if args.small else 128}
    name = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
    print(
        f"{date.today()}, torch {torch.__version__}, {name}, {data[0].shape}, batch {training['batch_size']}"
    )
    print("\n| stage | trainings | graphs | set-up s | epoch s | 500 epochs min | peak memory GiB |")
    print("|---|---|---|---|---|---|---|")
    stages = ("search", "cross-validation")
    total = sum(measure(stage, grid, data, training, args.epochs) for stage in stages)
    print(f"\nboth: {total / 3600:.1f} h for {PROTOCOL} epochs")


if __name__ == "__main__":
    main()
