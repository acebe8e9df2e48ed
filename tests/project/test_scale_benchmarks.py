"""Do the scripts that measure growth work, and do small studies keep to bounds that have slack?"""

import importlib.util
import time
from pathlib import Path

import numpy as np
import pytest

from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.search.candidates import BASELINE
from braindecode_censor.search.plan import cross_validation_jobs
from braindecode_censor.storage.experiment import open_experiment

ROOT = Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def people():
    return load("people")


@pytest.fixture(scope="module")
def growth():
    return load("growth")


def test_an_exponent_is_the_slope_of_the_logarithms(growth):
    sizes = np.array([3, 10, 50])
    assert growth.fit_exponent(sizes, 7 * sizes**1.5) == pytest.approx(1.5)


def test_costs_are_measured_and_a_study_computed_from_them(growth, capsys):
    few = {name: growth.COSTS[name] for name in ("statistics", "trainings of the busiest worker")}
    rows = growth.measure(growth.QUICK, few)
    found = {row[:2]: row[4] for row in rows}
    assert found["trainings of the busiest worker", "workers"] == pytest.approx(-1)
    assert found["trainings of the busiest worker", "settings"] == pytest.approx(1)
    assert 0.4 < found["statistics", "people"] < 1.6, "one pass, whoever's the trials are"
    assert capsys.readouterr().out.count("exponent") == len(rows)
    sizes = {"people": (16, 32), "trials": (40, 80), "channels": (16, 32), "samples": (128, 256)}
    flat = [("training step", name, values, [0.1, 0.1], 0.0) for name, values in sizes.items()]
    flat += [
        ("choice of weights", "people", (16, 32), [1.0, 2.0], 1.0),
        ("plan (keys)", "people", (16,), [1.0], 2.0),
    ]
    flat += [("statistics", "people", (16, 32), [1.0, 2.0], 1.0)]
    study = {
        "people": 160,
        "trials": 10,
        "channels": 4,
        "samples": 100,
        "settings": 2,
        "workers": 4,
        "partners": 4,
    }
    said = growth.extrapolate(flat, {**study, "steps": 36, "model_bytes": 1000})
    assert said["signals, float32, TB"] == pytest.approx(4 * 1600 * 400 / 1e12)
    assert said["all trainings, core hours"] == pytest.approx(160 * 2 * 2 * 36 * 0.1 / 3600)
    assert said["choice of weights, hours"] == pytest.approx(10 / 3600)
    assert said["keys of a cross-validated grid, hours"] == pytest.approx(100 / 3600)


@pytest.mark.filterwarnings("ignore")
def test_plan_and_selection_of_thirty_people(people, tmp_path):
    (tmp_path / "out").mkdir()
    experiment = people.make_experiment(tmp_path / "out", 30, 6, 30)
    started = time.process_time()
    scores = people.make_scores(experiment)
    assert len(scores) == 31 * 30
    open_experiment(experiment.out, experiment.identity())
    selected = people.do_selection(experiment, scores)
    jobs = cross_validation_jobs([BASELINE, *experiment.preset.grid], experiment.recording, experiment.seeds)
    keys = [job.key(experiment.recording, experiment.training) for job in jobs]
    assert selected in set(scores["setting"])
    assert len(set(keys)) == len(keys) == 31 * 30
    assert time.process_time() - started < 10


def test_pairs_of_a_hundred_people_are_chosen_from(people):
    seconds, said = people.do_pairs(100, 10, 20)
    assert said.startswith("23 rows")
    assert seconds[1] < 15


@pytest.mark.parametrize("method", MEASURES)
def test_a_step_of_many_people_costs_that_of_few(people, method):
    few, many = (
        people.time_step(method, "conditional", n, n_trials=1500, steps=10, shape=(4, 64)) for n in (8, 250)
    )
    assert many < 2.5 * few
