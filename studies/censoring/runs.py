"""Running the censoring study: recordings are read once per process, and what is finished is a file per seed."""

import gzip
import hashlib
import io
import json
import shutil
import time
import warnings
from dataclasses import asdict
from functools import cache

import numpy as np
import pandas as pd
import torch

from braindecode_censor.datasets import EpochsFolder, SimulatedSubjects, default_paradigm
from braindecode_censor.paper.data import sampling_rate
from braindecode_censor.storage.files import write_atomically
from studies.censoring.study import MODES, Setting, Study

__all__ = ["RECORDINGS", "SIMULATED", "check_same_penalties", "collect", "read_recording", "run_method"]

#: Recording -> options of the dataset, options of the paradigm. EMG is cut to the first half of each gesture, which is
#: what all trainings of ``docs/evidence.md`` have seen.
RECORDINGS = {
    "erp_uci_smni": ({}, {}),
    "ssvep_exo": ({}, {}),
    "emg_myo": ({"where": {"subset": "PreTrainingDataset"}}, {"tmax": 1.75}),
}
#: Tables of a study.
TABLES = ("scores", "leakage", "cost")
#: Name of the simulated people among the recordings.
SIMULATED = "simulated"
#: The simulated people, for the whole study and for a check.
POPULATION = {"kind": "mixed", "n_subjects": 16, "n_trials": 60}
TINY = {**POPULATION, "n_subjects": 6, "n_trials": 24, "n_chans": 4, "sfreq": 64.0}


@cache
def read_recording(folder, name, quick=False):
    """Read a recording, or simulate one."""
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


def run_method(args, options, name, base, seeds, method):
    """Run what a recording, a recipe, a method and some seeds lack, unless time is over."""
    warnings.filterwarnings("ignore", message=".*no trials of the new person")
    if torch.device(args.device).type == "cuda":
        torch.set_float32_matmul_precision("high")
    what = f"{name}, {base}, {method}, seeds {seeds[0]} to {seeds[-1]}"
    study = _study(args.data, name, base, args.quick, json.dumps(options))
    folder, told = args.out / name / base, study.describe()
    lacking = {}
    for seed in seeds:
        done = _done(folder, seed, told)
        missing = [one for one in study.settings if one.method == method and one not in done]
        if missing:
            lacking.setdefault(tuple(missing), []).append(seed)
    if not lacking:
        return f"{what}: finished before", True
    if time.time() > args.deadline:
        return f"{what}: no time left", True
    started = time.monotonic()
    try:
        for settings, some in lacking.items():
            _run(study, folder, told, some, settings, args.device)
    except (RuntimeError, MemoryError) as error:  # what torch raises, on the device and off it
        reason, *_ = f"{type(error).__name__}: {error}".splitlines()
        return f"{what}: failed ({reason})", False
    return f"{what}: {time.monotonic() - started:.1f} s", True


def _run(study, folder, told, seeds, settings, device):
    """Train, and write one file per seed."""
    started = time.monotonic()
    listed = [asdict(setting) for setting in settings]
    unfinished = folder / f"unfinished_{_digest(told, listed, seeds)}"
    unfinished.mkdir(parents=True, exist_ok=True)
    for seed, arrays in study.run(seeds, settings, unfinished).items():
        seconds = (time.monotonic() - started) / len(seeds)
        trainings = len(settings) * arrays["leakage"].shape[1]
        note = {**told, "settings": listed, "seconds": seconds, "trainings": trainings, "device": device}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, y=study.y, people=study.people, note=json.dumps(note), **arrays)
        path = folder / f"seed_{seed}_{settings[0].method}_{_digest(told, listed)}.npz"
        write_atomically(path, buffer.getvalue())
    shutil.rmtree(unfinished)


def _digest(*what):
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


@cache
def _study(folder, name, base, quick, options):
    return Study(*read_recording(folder, name, quick), base, json.loads(options))


def _note(path):
    with np.load(path) as stored:
        return {"calibrate": False, **json.loads(str(stored["note"]))}  # which older files do not say


def check_same_penalties(out, calibrate):
    """Refuse to mix two kinds of MIGE, which have the same name in all tables."""
    for path in out.glob("*/*/seed_*.npz"):
        if _note(path)["calibrate"] != calibrate:
            has, lacks = ("plain", "calibrated") if calibrate else ("calibrated", "plain")
            raise ValueError(f"{out} holds {has} MIGE: give a study of {lacks} MIGE a folder of its own.")


def _done(folder, seed, told):
    """Which settings of a seed are on disk, trained in just this way."""
    told, done = json.loads(json.dumps(told)), set()
    for note in map(_note, folder.glob(f"seed_{seed}_*.npz")):
        if {name: note[name] for name in told} == told:
            done.update(Setting(**setting) for setting in note["settings"])
    return done


def _longest(paths):
    """Trainings of several lengths, or on several numbers of folds, must not be compared: take the most of both."""
    notes = map(_note, paths)
    sizes = [(note["max_steps"] or np.inf, note["folds"]) for note in notes]
    return [path for path, size in zip(paths, sizes) if size == max(sizes)]


def collect(out):
    """Gather all finished trainings into tables, for each recording and recipe those with the most steps."""
    folders = sorted({path.parent for path in out.glob("*/*/seed_*.npz")})
    if not folders:
        files = {name: out / f"{name}.csv.gz" for name in TABLES}
        there = all(file.is_file() for file in files.values())
        return {name: pd.read_csv(file) if there else pd.DataFrame() for name, file in files.items()}
    rows = {name: [] for name in TABLES}
    for path in [path for folder in folders for path in _longest(sorted(folder.glob("seed_*.npz")))]:
        for name, found in _rows(path).items():
            rows[name] += found
    # Rounded before they are used, so that whoever reads the files finds the same ties between people.
    tables = {name: pd.DataFrame(found).round(6) for name, found in rows.items()}
    for name, table in tables.items():
        text = table.to_csv(index=False).encode()
        write_atomically(out / f"{name}.csv.gz", gzip.compress(text, mtime=0))
    return tables


def _rows(path):
    """Return what the file of a seed adds to every table."""
    with np.load(path) as stored:
        note, scores, leakage = json.loads(str(stored["note"])), stored["scores"], stored["leakage"]
    where = {"recording": path.parts[-3], "base": path.parts[-2], "seed": int(path.stem.split("_")[1])}
    n_folds, n_people = leakage.shape[1], scores.shape[1]
    left_out = map(len, np.array_split(np.arange(n_people), n_folds))
    chance = float(np.mean([1 / (n_people - size) for size in left_out]))
    settings = [{**where, **setting} for setting in note["settings"]]
    return {
        "scores": [
            {**setting, "subject": person, "score": score}
            for setting, found in zip(settings, scores)
            for person, score in enumerate(found)
        ],
        "leakage": [
            {**setting, "chance": chance, "probe": probe, "accuracy": accuracy}
            for setting, found in zip(settings, leakage)
            for probe, accuracy in zip(MODES, found.mean(axis=0))
        ],
        "cost": [{**where, **{name: note[name] for name in ("trainings", "seconds", "device", "max_steps")}}],
    }
