r"""What each step from the paper's protocol to the recipe gains for people never seen.

Needs folders of ``subject_XX.npz`` (see ``docs/datasets.md``) under ``--data``. Every step is a single network (or
rather one for each person left out and each seed), everybody is tested, and what is known of the person is kept apart:
nothing, or the person's trials without classes. From the same networks come two curves (how many unlabelled trials, how
many labelled ones) and what a block of trials of one class does.

    python benchmarks/transfer.py --data DIR --out results/steps --device cuda --seeds 4
    python benchmarks/transfer.py --data DIR --out results/steps --device cuda --only speed
    python benchmarks/transfer.py --data DIR --out results/check --device cpu --quick --recording emg_myo
    python paper_figures/plot_tiers.py --results docs/results --out docs/_static

Networks that are alike train as one fleet, and ``--jobs`` fleets side by side, because a fleet of this size keeps a GPU
busy for a part of the time only. Other processes, ``--testers`` of them, test what is trained. Interrupt and start
again at will: what is finished (recording, step, seed) lies in ``parts/``. The small files that the documentation shows
are written to ``--docs``.
"""

import argparse
import io
import json
import os
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from transfer_speed import measure_speed
from transfer_steps import STEPS, evaluate, load, steps_of, train_unit, units
from transfer_tables import write_speed, write_tables

from braindecode_censor.figures.run_transfer import RECORDINGS, read_recording
from braindecode_censor.storage.files import clean, locked, write_atomically


class Here:
    """An executor without processes, which does what it is given at once."""

    def submit(self, function, *args):
        """Do it."""
        future = Future()
        future.set_result(function(*args))
        return future


class Run:
    """The trainings and tests that are left, and what they give."""

    def __init__(self, args):
        self.args, self.began, self.waiting, self.missing, self.found = args, time.monotonic(), {}, {}, {}

    def say(self, text):
        """Print a line with the time."""
        print(f"{time.monotonic() - self.began:6.1f} s  {text}", flush=True)

    def arrays(self, recording):
        """Read a recording once, and keep its arrays where all processes find them."""
        path = self.args.out / "arrays" / f"{recording}.npz"
        if not path.exists():
            found = read_recording(self.args.data / recording, *RECORDINGS.get(recording, ({}, {})))
            X, y, subjects, sfreq = found
            codes, people = (np.unique(labels, return_inverse=True)[1] for labels in (y, subjects))
            content = io.BytesIO()
            np.savez(content, X=X, y=codes, people=people, sfreq=sfreq)
            write_atomically(path, content.getvalue())
        return path

    def folds(self, recording):
        """Return how many people are tested."""
        n_people = int(load(self.arrays(recording))["people"].max()) + 1
        return min(n_people, self.args.folds or n_people)

    def part(self, recording, name, seed):
        """Return where the result of one step and seed is kept."""
        step = list(STEPS).index(name)
        length = steps_of(name, self.args.length)
        file = f"{recording}-{step:02d}-{length}-{self.folds(recording)}-{seed}.npz"
        return self.args.out / "parts" / file

    def do(self, trainers, testers):
        """Train and test what is left."""
        for recording, names in units(self.args.recording, self.args.steps):
            seeds = range(self.args.seeds)
            left = [(n, s) for n in names for s in seeds if not self.part(recording, n, s).exists()]
            if left:
                work = self.arrays(recording), left, self.folds(recording), self.args.length, self.args.device
                self.waiting[trainers.submit(train_unit, *work)] = recording, False
        self.say(f"{len(self.waiting)} fleets to train")
        while self.waiting:
            done, _ = wait(self.waiting, return_when=FIRST_COMPLETED)
            for future in done:
                recording, tests = self.waiting.pop(future)
                if future.exception() is not None:  # the others go on
                    self.say(f"{recording}: failed: {future.exception()!r}")
                elif tests:
                    self._take_test(recording, *future.result())
                else:
                    self._take_models(recording, *future.result(), testers)

    def _take_models(self, recording, models, note, testers):
        names = dict.fromkeys(key[0] for key, _ in models)
        ms = 1e3 * note["seconds"] / note["training_steps"]
        told = f"{note['trainings']} trainings of {note['training_steps']} steps in {note['seconds']:.0f} s"
        self.say(f"{recording}: {'; '.join(names)}: {told}, {ms:.1f} ms a step of all")
        for key, model in models:
            if model is None:
                self.say(f"{recording}: {key} failed: its loss was not finite")
                continue
            part = self.part(recording, *key[:2])
            self.missing[part] = self.missing.get(part, 0) + 1
        for key, model in models:
            if model is not None:
                future = testers.submit(evaluate, self.arrays(recording), key, model)
                self.waiting[future] = recording, True

    def _take_test(self, recording, key, probabilities, curves, shift):
        name, seed, person = key
        part, data = self.part(recording, name, seed), load(self.arrays(recording))
        mine, n_classes = data["people"] == person, int(data["y"].max()) + 1
        found = self.found.setdefault(part, {"rows": [], "shift": []})
        for tier, array in probabilities.items():
            blank = np.full((len(mine), n_classes), np.nan, dtype=np.float32)
            found.setdefault(tier, blank)[mine] = array
        found["rows"] += [(person, *row) for row in curves]
        found["shift"] += [(person, *row) for row in shift]
        self.missing[part] -= 1
        if not self.missing[part]:
            told = {"recording": recording, "step": name, "seed": seed}
            told |= {"length": steps_of(name, self.args.length), "folds": self.folds(recording)}
            told |= {"curves": found.pop("rows"), "shift": found.pop("shift")}
            content = io.BytesIO()
            np.savez_compressed(content, told=json.dumps(told), **found)
            write_atomically(part, content.getvalue())
            self.say(f"{recording}: {name}, seed {seed}: tested")


def parts(run):
    """Read what is finished of what was asked for."""
    found = []
    for recording, names in units(run.args.recording, run.args.steps):
        data = load(run.arrays(recording))
        for name in names:
            for path in (run.part(recording, name, seed) for seed in range(run.args.seeds)):
                if path.exists():
                    with np.load(path) as file:
                        tiers = {tier: file[tier] for tier in file.files if tier != "told"}
                        told = json.loads(str(file["told"]))
                    found.append({**told, "tiers": tiers, "y": data["y"], "people": data["people"]})
    return found


def make_parser():
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder that holds the recordings' folders")
    add("--out", type=Path, required=True, help="folder for results")
    add(
        "--docs",
        type=Path,
        help="folder for the small files that the documentation shows; --out if not given",
    )
    add("--recording", action="append", help="folder under --data; the three known ones if not given")
    add("--steps", nargs="+", choices=STEPS, default=list(STEPS), metavar="STEP", help=f"of {list(STEPS)}")
    add("--seeds", type=int, default=4, help="number of seeds")
    add("--folds", type=int, help="people who are tested, the first ones; all if not given")
    add("--length", type=int, default=1500, help="training steps; wide networks take 8/3 of them")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    add("--jobs", type=int, help="fleets that train side by side; 6 on a GPU, else 0: all in this process")
    add("--testers", type=int, help="processes that test; the other cores")
    add("--quick", action="store_true", help="a few training steps of one seed and two people, to see it run")
    add(
        "--only", choices=["steps", "speed"], help="steps: the tables and curves; speed: cost of augmentation"
    )
    return parser


def main(argv=None):
    """Run what was asked for."""
    parser = make_parser()
    args = parser.parse_args(argv)
    args.recording = args.recording or list(RECORDINGS)
    args.docs = args.docs or args.out
    if args.jobs is None:
        args.jobs = 6 if args.device.startswith("cuda") else 0
    if args.quick:
        args.length, args.seeds, args.folds = 6, 1, 2
    with locked(args.out):
        clean(args.out)
        if args.only != "speed":
            if args.data is None:
                parser.error("--data is needed: the folder that holds the recordings' folders")
            run_steps(args)
        if args.only != "steps":
            print("\n" + write_speed(args.docs, measure_speed(args.device, args.quick)), flush=True)


def run_steps(args):
    """Train and test the steps, and write their tables."""
    run, context = Run(args), get_context("spawn")
    for recording in args.recording:
        run.arrays(recording)
    with ExitStack() as stack:
        trainers = testers = Here()
        if args.jobs:
            n_testers = args.testers or max(1, (os.cpu_count() or 2) - args.jobs)
            trainers = stack.enter_context(ProcessPoolExecutor(args.jobs, mp_context=context))
            testers = stack.enter_context(ProcessPoolExecutor(n_testers, mp_context=context))
        run.do(trainers, testers)
    run.say("all trained and tested")
    print("\n" + write_tables(args.docs, parts(run)), flush=True)


if __name__ == "__main__":
    main()
