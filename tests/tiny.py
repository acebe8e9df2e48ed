"""A dataset and a grid so small that a whole experiment takes seconds."""

import json
import shutil

from shared import once

from braindecode_censor import AutoTransfer
from braindecode_censor.datasets import SimulatedSubjects

DATA = {"n_subjects": 4, "n_trials": 24, "n_chans": 4, "sfreq": 64.0, "duration": 1.0}
TRAINING = {"max_epochs": 2, "batch_size": 16, "module__F1": 2, "module__D": 1}
GRID = [
    {"method": "mmd", "mode": ["marginal", "conditional"], "weight": 0.1},
    {"method": "adv", "mode": "marginal", "weight": [0.01, 0.1]},
]
FULL_GRID = [*GRID, *({"method": m, "mode": "marginal", "weight": 0.1} for m in ("mige", "pairmmd", "began"))]


def experiment(out, grid=GRID, **options):
    """Return an experiment on four subjects; 4 settings, one kept of each method."""
    options = {"dataset": "simulated", "dataset_options": DATA, "training": TRAINING, "top": 1, **options}
    return AutoTransfer(out=out, preset=grid, **options)


def run(out, grid=GRID, **options):
    """Return the result of an experiment without its report, which takes most of the time."""
    return experiment(out, grid, **options).run(report=False)


def run_as_fleet():
    """Return the folder of an experiment that one fleet did in one process; nobody may change it."""
    return once("fleet", lambda out: run(out, engine="fleet"))


def copy_of(out, path):
    """Return a copy of a folder of results that may be spoilt."""
    shutil.copytree(out, path)
    return path


def finished(out):
    """Return the keys of all finished trainings, in the order in which they were finished."""
    log = out / "trainings" / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    # the last one may be half written
    return [json.loads(line)["key"] for line in lines if line.endswith("\n")]


class Spoilt(SimulatedSubjects):
    """The same subjects under the same code, but subject 3 has other signals and other labels."""

    def trials(self, subject):
        found = super().trials(subject)
        if subject != 3:
            return found
        return [(self._rng(9).standard_normal(X.shape), 1 - y) for X, y in found]
