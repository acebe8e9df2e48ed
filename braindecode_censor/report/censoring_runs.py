"""Running the censoring study: recordings are read once per process, and every finished seed is a file."""

import hashlib
import io
import json
import shutil
import time
import warnings
from functools import cache

import numpy as np
import pandas as pd
import torch

from braindecode_censor.datasets import EpochsFolder, SimulatedSubjects, default_paradigm
from braindecode_censor.report.censoring_study import MODES, Study
from braindecode_censor.search.recording import sampling_rate
from braindecode_censor.storage.files import write_atomically

__all__ = ["RECORDINGS", "SIMULATED", "collect", "read_recording", "run_seeds"]

#: Recording -> options of the dataset, options of the paradigm.
RECORDINGS = {
    "erp_uci_smni": ({}, {}),
    "ssvep_exo": ({}, {}),
    "emg_myo": ({"where": {"subset": "PreTrainingDataset"}}, {"tmax": 1.75}),
}
#: Name of the simulated people among the recordings.
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
        sfreq = sampling_rate(dataset, paradigm)
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
    started, unfinished = time.monotonic(), _unfinished(args.out / name / base, told, seeds)
    unfinished.mkdir(parents=True, exist_ok=True)
    for seed, arrays in study.run(seeds, unfinished).items():
        seconds = (time.monotonic() - started) / len(seeds)
        trainings = len(study.settings) * arrays["leakage"].shape[1]
        note = {**told, "seconds": seconds, "trainings": trainings, "device": args.device}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, y=study.y, people=study.people, note=json.dumps(note), **arrays)
        write_atomically(paths[seed], buffer.getvalue())
    shutil.rmtree(unfinished)
    return f"{what}: {time.monotonic() - started:.1f} s"


def _unfinished(folder, *what):
    """Where trainings of exactly these settings and seeds are saved."""
    return folder / f"unfinished_{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]}"


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
        ``leakage.csv``, too, with ``cost.csv``: trainings, their steps and seconds.
    """
    scores, leakage, cost = [], [], []
    for path in sorted(out.glob("*/*/seed_*.npz")):
        with np.load(path) as stored:
            note, found, probed = json.loads(str(stored["note"])), stored["scores"], stored["leakage"]
        where = {"recording": path.parts[-3], "base": path.parts[-2], "seed": int(path.stem.split("_")[1])}
        cost.append(
            {**where, **{name: note[name] for name in ("trainings", "seconds", "device", "max_steps")}}
        )
        for setting, by_person, by_fold in zip(note["settings"], found, probed):
            scores += [{**where, **setting, "person": k, "score": score} for k, score in enumerate(by_person)]
            chance = {
                "chance": np.mean(
                    [
                        1 / (len(by_person) - size)
                        for size in map(len, np.array_split(by_person, len(by_fold)))
                    ]
                )
            }
            leakage += [
                {**where, **setting, **chance, "probe": probe, "accuracy": value}
                for probe, value in zip(MODES, by_fold.mean(0))
            ]
    tables = {"scores": scores, "leakage": leakage, "cost": cost}
    tables = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    for name, table in tables.items():
        write_atomically(out / f"{name}.csv", table.to_csv(index=False, float_format="%.6g").encode())
    return tables["scores"], tables["leakage"]
