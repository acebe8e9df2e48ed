"""Censoring on top of decoders that are trained well: every method and mode, several weights, many seeds.

Subjects are split into folds. Without each fold a network is trained uncensored, and with five methods in three modes
at several penalty weights. Held-out subjects are decoded with their unlabelled trials, by the paper's protocol without
target data. Fresh probes of the latent code measure the subject leakage of the training subjects. Controls: batches
without a penalty, a negative weight, which reveals the subject, and shuffled subject labels.

    python -m studies.censoring.run --data DIR --out results/censoring --device cuda
    python -m studies.censoring.run --simulated --out results/censoring --seeds 1 --methods mmd --max-steps 20
    python -m studies.censoring.table --results results/censoring

Interrupt and start again, also with more weights, methods or seeds: finished trainings are in the store.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.paper.grid import METHODS
from braindecode_censor.search.family import BASELINE
from braindecode_censor.storage.files import clean, locked
from studies.censoring.study import MODES, CensoringStudy
from studies.recordings import find_recordings, number_subjects, read_recording
from studies.tables import read_tables, replace_rows, write_tables

#: Tables of a folder of results.
TABLES = ("scores", "leakage", "cost")
#: Recording -> options of its paradigm. Of each gesture of EMG the first half is used.
CUT = {"emg_myo": {"tmax": 1.75}}
_ARM_OPTIONS = ("levels", "control_modes", "methods", "calibrate")


def read_all(args):
    """Yield name, trials and sampling rate of every recording."""
    for folder in find_recordings(args.data) if args.data else ():
        yield folder.name, *read_recording(folder, **CUT.get(folder.name, {}))
    if args.simulated:
        dataset = SimulatedSubjects(16, 60, kind="mixed")
        yield "simulated", number_subjects(*dataset.arrays()), dataset.design.sfreq


def run_base(name, data, sfreq, base, args):
    """Train and test all seeds of a base candidate on a recording, and write the tables."""
    options = {key: getattr(args, key) for key in ("folds", "max_steps", "device", *_ARM_OPTIONS)}
    study = CensoringStudy(data, sfreq, args.out / name, base, n_jobs=args.jobs, **options)
    parts = []
    for seed in range(args.seeds):
        parts.append(study.run(seed))
        scores = parts[-1]["scores"]
        print(f"{name}, {base}, seed {seed}: mean score {np.mean(scores['score']):.3f}", flush=True)
    keys = {"recording": name, "base": base}
    new = {table: pd.concat([part[table] for part in parts]).assign(**keys) for table in TABLES}
    with locked(args.out):
        clean(args.out)
        tables = read_tables(args.out, TABLES)
        replace_rows(tables, new, list(keys))
        write_tables(args.out, tables)


def main(argv=None):
    """Run the study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, nargs="+", help="folders of recordings, or folders that hold them")
    add("--simulated", action="store_true", help="also, or only, 16 simulated subjects")
    add("--out", type=Path, default=Path("results/censoring"), help="folder for results")
    add("--base", nargs="+", default=["subject", "euclidean", BASELINE], help="base candidates")
    add("--seeds", type=int, default=8, help="number of seeds")
    add("--folds", type=int, default=4, help="folds of subjects")
    add("--methods", nargs="*", default=list(METHODS), choices=METHODS, help="censoring methods")
    levels = [0.3, 1, 3, 10]
    add("--levels", type=float, nargs="*", default=levels, help="multiples of the default penalty weights")
    add("--control-modes", nargs="*", default=["conditional"], choices=MODES, help="modes of two controls")
    add("--calibrate", action="store_true", help="size-matched scores for MIGE; use another --out")
    add("--max-steps", type=int, help="steps of a training; the candidate's own if not given")
    add("--jobs", type=int, default=1, help="trainings and tests at a time on a CPU")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    if not args.data and not args.simulated:
        parser.error("--data or --simulated is needed.")
    for name, data, sfreq in read_all(args):
        for base in args.base:
            run_base(name, data, sfreq, base, args)


if __name__ == "__main__":
    main()
