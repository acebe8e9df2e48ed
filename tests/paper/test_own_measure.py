"""Options of a user's own measure, written in its class only, in grids, Optuna, trainings and tables."""

import pickle
from typing import ClassVar

import pytest
from tiny import ONE_EPOCH, finished, run

from braindecode_censor.figures import plot_tables
from braindecode_censor.figures.folder import Missing, Results, read_results
from braindecode_censor.paper.grid import expand
from braindecode_censor.paper.stored import read_training
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.penalties.measures.mmd import MMD
from braindecode_censor.penalties.options import Choice, Range
from braindecode_censor.run.workers import add_parts, own_parts


class Sharp(MMD):
    """MMD times a factor, so that the option changes what is trained."""

    search_space: ClassVar = {
        "weight": Range(0.1, 1.0, log=True),
        "kind": Choice(("plain", "sharp")),
        "sharpness": Range(0.5, 4.0, when=("kind", ("sharp",))),
    }

    def __init__(self, *sizes, kind="plain", sharpness=1.0, **options):
        super().__init__(*sizes, **options)
        self.factor = sharpness if kind == "sharp" else 1.0

    def censor(self, *args, **kwargs):
        return self.factor * super().censor(*args, **kwargs)


@pytest.fixture
def sharp(monkeypatch):
    monkeypatch.setitem(MEASURES, "sharp", Sharp)


def test_a_grid_with_it_runs_and_the_option_acts(sharp, tmp_path):
    grid = [{"method": "sharp", "weight": 1.0, "kind": "sharp", "sharpness": [1.0, 50.0]}]
    names = [setting.name for setting in expand(grid)]
    assert names == ["sharp-marginal-1-kind=sharp-sharpness1", "sharp-marginal-1-kind=sharp-sharpness50"]
    result = run(tmp_path, grid, n_top=2, training=ONE_EPOCH)
    assert "sharp" in result.table.index and set(names) < set(result.scores["setting"])
    records = [read_training(tmp_path, key).record for key in finished(tmp_path)]
    assert {r["params"].get("penalty__sharpness") for r in records} == {None, 1.0, 50.0}
    losses = {str(r["history"]["train_loss"]) for r in records if r["valid_subject"] == 2}
    assert len(losses) == 3, "baseline and both values train differently"
    rows = plot_tables.hyperparameters(read_results(tmp_path)).set_index("parameter")["values"]
    assert rows["sharpness"] == "1, 50" and rows["kind"] == "sharp"


def test_workers_learn_it_and_a_process_that_does_not_know_it_says_so(monkeypatch, tmp_path):
    cloudpickle = pytest.importorskip("cloudpickle")  # which joblib and Dask send things with
    monkeypatch.setitem(MEASURES, "sharp", Sharp)
    parts = pickle.loads(cloudpickle.dumps(own_parts()))
    del MEASURES["sharp"]
    results = Results(tmp_path, identity={"grid": [{"method": "sharp"}]})
    with pytest.raises(Missing, match=r"the grid cannot be read: method='sharp' is unknown"):
        plot_tables.hyperparameters(results)
    add_parts(parts)
    assert MEASURES["sharp"] is Sharp
