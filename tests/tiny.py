"""An experiment that takes seconds."""

import json
import shutil

from braindecode_censor import AutoTransfer

DATA = {"n_subjects": 4, "n_trials": 24, "n_chans": 4, "sfreq": 64.0, "duration": 1.0}
TRAINING = {"max_epochs": 2, "batch_size": 16, "module__F1": 2, "module__D": 1}
ONE_EPOCH = {**TRAINING, "max_epochs": 1}
GRID = [
    {"method": "mmd", "mode": ["marginal", "conditional"], "weight": 0.1},
    {"method": "adv", "mode": "marginal", "weight": [0.01, 0.1]},
]
FULL_GRID = [*GRID, *({"method": m, "mode": "marginal", "weight": 0.1} for m in ("mige", "pairmmd", "began"))]


def experiment(out, grid=GRID, **options):
    """Return an experiment on four subjects; 4 configurations, the best one of each method."""
    options = {"dataset": "simulated", "dataset_options": DATA, "training": TRAINING, "n_top": 1, **options}
    return AutoTransfer(out=out, preset=grid, **options)


def run(out, grid=GRID, **options):
    """Return the result of an experiment without its report, which takes most of the time."""
    return experiment(out, grid, **options).run(report=False)


def copy_of(out, path):
    """Return a copy of a folder of results that may be changed."""
    shutil.copytree(out, path)
    return path


def finished(out):
    """Return the keys of all finished trainings, in the order in which they were finished."""
    log = out / "trainings" / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    # The last line may be incomplete.
    return [json.loads(line)["key"] for line in lines if line.endswith("\n")]
