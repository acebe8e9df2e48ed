r"""Does censoring help on top of a decoder that is trained well? Every method and mode, small weights, many seeds.

Needs folders of ``subject_XX.npz`` (see ``docs/datasets.md``) under ``--data``; "simulated" is a recording, too. For
every recording, every uncensored recipe (``--base``) and every seed, people are shared out to a few folds. Without each
fold a network is trained uncensored, and with five methods in three modes at several weights. People of the fold are
decoded with their own unlabelled trials, by the paper's protocol with nothing but the trial. Fresh probes say how well
the codes of the training people still tell who is who. Controls: batches without a penalty, a negative weight, which
reveals the person instead, and people whose labels were shuffled, so that there is nothing to censor.

    python paper_figures/run_censoring.py --data DIR --out results/censoring --device cuda --jobs 3 --time-limit 400
    python paper_figures/run_censoring.py --out /tmp/check --quick                   # seconds, on a CPU
    python paper_figures/plot_censoring.py --results results/censoring

Interrupt and start again at will: a seed that is finished is not repeated. Seeds come in turn over all recordings and
recipes, so that whatever the time allows is a study with fewer seeds.
"""

import argparse
import io
import json
import time
import warnings
from functools import cache
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import torch

from braindecode_censor.datasets import EpochsFolder, SimulatedSubjects, default_paradigm
from braindecode_censor.report.censoring_study import MODES, Study
from braindecode_censor.search.candidates import METHODS
from braindecode_censor.search.family import BASELINE
from braindecode_censor.storage.files import clean, locked, write_atomically

#: Recording -> options of the dataset, options of the paradigm.
RECORDINGS = {
    "erp_uci_smni": ({}, {}),
    "ssvep_exo": ({}, {}),
    "emg_myo": ({"where": {"subset": "PreTrainingDataset"}}, {"tmax": 1.75}),
}
SIMULATED = "simulated"
#: The simulated people, for the whole study and for a check.
POPULATION = {"kind": "mixed", "n_subjects": 16, "n_trials": 60}
TINY = {**POPULATION, "n_subjects": 6, "n_trials": 24, "n_channels": 4, "sfreq": 64.0}


@cache
def read_recording(folder, name, quick=False):
    """Read a recording, or simulate one.

    Parameters
    ----------
    folder : Path or None
        Where recordings are.
    name : str
        Folder in it, or "simulated".
    quick : bool
        Whether to simulate few people.

    Returns
    -------
    X : ndarray of shape (n_trials, n_chans, n_times)
        Signals.
    y, people : ndarray of int of shape (n_trials,)
        Numbers from 0.
    sfreq : float
        Sampling rate.
    """
    if name == SIMULATED:
        dataset = SimulatedSubjects(**(TINY if quick else POPULATION))
        X, y, subjects = dataset.arrays()
        sfreq = dataset.design.sfreq
    else:
        options, cut = RECORDINGS.get(name, ({}, {}))
        dataset = EpochsFolder(folder / name, **options)
        paradigm = default_paradigm(dataset, **cut)
        X, y, metadata = paradigm.get_data(dataset)
        subjects = metadata["subject"].to_numpy()
        first = next(iter(dataset.get_data([dataset.subject_list[0]])[dataset.subject_list[0]].values()))
        sfreq = paradigm.resample or next(iter(first.values())).info["sfreq"]
    y, people = (np.unique(labels, return_inverse=True)[1] for labels in (y, subjects))
    return X.astype(np.float32), y, people, float(sfreq)


def run_seeds(args, options, name, base, seeds):
    """Run some seeds of a recording and a recipe, unless they are there or time is over.

    Parameters
    ----------
    args : argparse.Namespace
        Options of the shell.
    options : dict
        Options of :class:`Study`.
    name, base, seeds : str, str, list of int
        What to run.

    Returns
    -------
    told : str
        What was done.
    """
    warnings.filterwarnings("ignore", message=".*no trials of the new person")
    if torch.device(args.device).type == "cuda":
        torch.set_float32_matmul_precision("high")
    what = f"{name}, {base}, seeds {seeds[0]} to {seeds[-1]}"
    study = _study(args.data, name, base, args.quick, json.dumps(options))
    told = study.describe()
    paths = {seed: args.out / name / base / f"seed_{seed}.npz" for seed in seeds}
    seeds = [seed for seed in seeds if not _is_done(paths[seed], told)]
    if not seeds:
        return f"{what}: finished before"
    if time.time() > args.deadline:
        return f"{what}: no time left"
    started = time.monotonic()
    for seed, arrays in study.run(seeds).items():
        seconds = (time.monotonic() - started) / len(seeds)
        trainings = len(study.settings) * arrays["leakage"].shape[1]
        note = {**told, "seconds": seconds, "trainings": trainings, "device": args.device}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, y=study.y, people=study.people, note=json.dumps(note), **arrays)
        write_atomically(paths[seed], buffer.getvalue())
    return f"{what}: {time.monotonic() - started:.1f} s"


@cache
def _study(folder, name, base, quick, options):
    return Study(*read_recording(folder, name, quick), base, json.loads(options))


def _is_done(path, told):
    if not path.exists():
        return False
    with np.load(path) as stored:
        note = json.loads(str(stored["note"]))
    return {name: note[name] for name in told} == json.loads(json.dumps(told))


def collect(out):
    """Gather all finished seeds into two tables.

    Parameters
    ----------
    out : Path
        Folder of results.

    Returns
    -------
    scores, leakage : DataFrame
        One row per recording, base, seed, setting and person (or fold and kind of probe). Written as ``scores.csv`` and
        ``leakage.csv``, too, with ``cost.csv``: trainings and minutes.
    """
    scores, leakage, cost = [], [], []
    for path in sorted(out.glob("*/*/seed_*.npz")):
        with np.load(path) as stored:
            note, found, probed = json.loads(str(stored["note"])), stored["scores"], stored["leakage"]
        where = {"recording": path.parts[-3], "base": path.parts[-2], "seed": int(path.stem.split("_")[1])}
        cost.append(
            {**where, "trainings": note["trainings"], "seconds": note["seconds"], "device": note["device"]}
        )
        for setting, by_person, by_fold in zip(note["settings"], found, probed):
            scores += [{**where, **setting, "person": k, "score": score} for k, score in enumerate(by_person)]
            means = dict(zip(MODES, by_fold.mean(0)))
            leakage += [
                {**where, **setting, "probe": probe, "accuracy": value} for probe, value in means.items()
            ]
    tables = {"scores": scores, "leakage": leakage, "cost": cost}
    tables = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    for name, table in tables.items():
        write_atomically(out / f"{name}.csv", table.to_csv(index=False, float_format="%.6g").encode())
    return tables["scores"], tables["leakage"]


def main(argv=None):
    """Run the study, or what is left of it.

    Parameters
    ----------
    argv : list of str or None
        Arguments; those of the process when omitted.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder that holds the recordings' folders")
    add("--out", type=Path, default=Path("results/censoring"), help="folder for results")
    add("--recording", action="append", help="folder under --data, or simulated; all four if not given")
    add("--base", action="append", help="uncensored recipe; person, euclidean and paper if not given")
    add("--seeds", type=int, default=8, help="number of seeds")
    add("--at-once", type=int, default=2, help="seeds that are trained in one fleet")
    add("--folds", type=int, default=4, help="folds of people")
    add("--methods", nargs="+", default=list(METHODS), choices=METHODS, help="censoring methods")
    add(
        "--levels", type=float, nargs="+", default=[0.1, 0.3, 1, 3, 10], help="multiples of the usual weights"
    )
    add(
        "--control-modes",
        nargs="*",
        default=["conditional"],
        choices=MODES,
        help="where to reveal and to shuffle",
    )
    add("--max-steps", type=int, help="steps of a training; the recipe's own if not given")
    add("--group-size", type=int, help="networks that train side by side at most")
    add("--jobs", type=int, default=1, help="processes, which share the device")
    add("--time-limit", type=float, default=np.inf, help="seconds after which nothing new is begun")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    add("--quick", action="store_true", help="a check: few simulated people, one seed, few steps")
    args = parser.parse_args(argv)
    args.deadline = time.time() + args.time_limit
    if args.quick:
        args.recording, args.base = [SIMULATED], args.base or ["person", BASELINE]
        args.seeds, args.folds, args.methods, args.levels = 1, 2, ["mmd"], [1, 10]
        args.max_steps = args.max_steps or 10
    names = args.recording or [*RECORDINGS, SIMULATED]
    if args.data is None and names != [SIMULATED]:
        parser.error(f"--data is needed for {names}: the folder that holds them.")
    names_of_options = ("folds", "methods", "levels", "control_modes", "max_steps", "group_size", "device")
    options = {name: getattr(args, name) for name in names_of_options}
    blocks = [list(range(args.seeds))[k : k + args.at_once] for k in range(0, args.seeds, args.at_once)]
    todo = [
        (name, base, seeds)
        for seeds in blocks
        for base in args.base or ["person", "euclidean", BASELINE]
        for name in names
    ]
    with locked(args.out):
        clean(args.out)
        pool = joblib.Parallel(
            n_jobs=args.jobs, return_as="generator_unordered", pre_dispatch=args.jobs, batch_size=1
        )
        for told in pool(joblib.delayed(run_seeds)(args, options, *what) for what in todo):
            print(told, flush=True)
            collect(args.out)


if __name__ == "__main__":
    main()
