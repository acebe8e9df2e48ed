"""One finished experiment with every method and two seeds, made once per run; tests change copies."""

import shutil
import warnings
from contextlib import contextmanager
from functools import cache

import moabb
import pandas as pd
import pytest
from shared import once
from tiny import FULL_GRID, experiment

from braindecode_censor.paper import page
from braindecode_censor.paper.identity import _write, read_experiment
from braindecode_censor.paper.tables import write_table

SUBJECTS = 4


@cache
def finished():
    return once("finished", _make)


def _make(out):
    moabb.set_log_level("error")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        experiment(out, FULL_GRID, n_seeds=2).run()


def spoilt(path, change=None):
    shutil.copytree(finished(), path)
    shutil.rmtree(path / "figures")
    if change is not None:
        write_table(path, "scores.csv", change(pd.read_csv(path / "scores.csv")))
    return path


@contextmanager
def few_figures(*names):
    """Limit reports to these figures, since all of them take most of a report's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "PLOTS", [plot for plot in page.PLOTS if plot.name in names])
        yield


def claim(path, **changes):
    """Change the experiment's file, with valid checksums."""
    content = read_experiment(path)
    _write(path / "experiment.json", {**content["identity"], **changes}, content["provenance"])
