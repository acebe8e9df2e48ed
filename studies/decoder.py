r"""One ``fit`` of AutoTransferClassifier on a recording: what it expects of the next person, and whether it is in time.

Needs a folder of ``subject_XX.npz`` (see ``docs/datasets.md``) under ``--data``, or simulates people.

    python benchmarks/decoder.py --data DIR --recording erp_uci_smni --time 600 --jobs 2 --device cpu
    python benchmarks/decoder.py --data DIR --recording erp_uci_smni --time 180 --jobs 14 --device cuda
    python benchmarks/decoder.py --data DIR --recording erp_uci_smni --time 60 --repeat 10    # ten times the trials
    python benchmarks/decoder.py --simulated 6 40 60 1000 4 --time 60 --jobs 2    # a slow shape: is it in time?
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from braindecode_censor import AutoTransferClassifier
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.figures.run_transfer import RECORDINGS, read_recording


def main(argv=None):
    """Fit once and print what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--data", type=Path, help="folder that holds the recordings' folders")
    shape = ("PEOPLE", "TRIALS", "CHANNELS", "HZ", "SECONDS")
    data.add_argument("--simulated", type=float, nargs=5, metavar=shape, help="simulate people instead")
    add("--recording", default="erp_uci_smni", help="folder under --data")
    add("--target", default="unlabeled", choices=["none", "unlabeled", "labeled"], help="what is known")
    add("--time", type=float, default=600, help="time_limit in seconds")
    add("--repeat", type=int, default=1, help="take every trial so many times, with a little noise")
    add("--jobs", type=int, default=1, help="trainings at a time")
    add("--seed", type=int, default=0, help="random_state")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    add("--out", type=Path, help="file for the numbers, as JSON")
    args = parser.parse_args(argv)
    if args.simulated:
        n_people, n_trials, n_chans = map(int, args.simulated[:3])
        sfreq, duration = args.simulated[3:]
        people = SimulatedSubjects(n_people, n_trials, n_chans=n_chans, sfreq=sfreq, duration=duration)
        X, y, subjects = people.arrays()
    else:
        options = RECORDINGS.get(args.recording, ({}, {}))
        X, y, subjects, sfreq = read_recording(args.data / args.recording, *options)
    if args.repeat > 1:
        X, y, subjects = (np.repeat(array, args.repeat, axis=0) for array in (X, y, subjects))
        scale = 0.01 * X.std(dtype=np.float64).astype(X.dtype)
        X += scale * np.random.default_rng(0).standard_normal(X.shape, dtype=X.dtype)
    clf = AutoTransferClassifier(
        target=args.target,
        time_limit=args.time,
        device=args.device,
        random_state=args.seed,
        n_jobs=args.jobs,
        sfreq=sfreq,
    )
    started = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they stand in heldout_.warnings
        clf.fit(X, y, subjects=subjects)
    seconds = time.monotonic() - started
    scores = np.array(list(clf.heldout_.scores.values()))
    found = {
        "recording": "simulated" if args.simulated else args.recording,
        "trials": list(X.shape),
        "device": torch.cuda.get_device_name() if args.device == "cuda" else f"{args.jobs} processes",
        "time_limit": args.time,
        "seconds": round(seconds, 1),
        "of_limit": round(seconds / args.time, 3),
        "mean": round(float(scores.mean()), 4),
        "lower_quartile": round(float(np.quantile(scores, 0.25)), 4),
        "trainings": int(clf.leaderboard_.query("kind != 'combination'")["trainings"].sum()),
    }
    with pd.option_context("display.width", 160, "display.max_columns", None):
        print(clf.leaderboard_.head(15).round(3).to_string(index=False))
    print(clf.heldout_)
    print(json.dumps(found))
    if args.out is not None:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
