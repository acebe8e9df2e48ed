"""The benchmark behind the documented table: its split, its resuming and its verdicts."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SCRIPT = Path(__file__).parents[2] / "studies" / "front_simulated.py"


@pytest.fixture
def benchmark(monkeypatch):
    """The script, made small."""
    spec = importlib.util.spec_from_file_location("front_simulated", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in {"N_SEEN": 4, "N_UNSEEN": 2, "N_TRAIN": 16, "N_PROBE": 10}.items():
        monkeypatch.setattr(module, name, value)
    return module


def test_every_method_and_mode_has_a_weight(benchmark):
    assert set(benchmark.WEIGHTS) == set(benchmark.MODES)
    assert all(set(weights) == set(benchmark.METHODS) for weights in benchmark.WEIGHTS.values())


def test_unseen_subjects_and_probed_trials_are_not_trained_on(benchmark):
    data = benchmark.simulate(3)
    assert set(data["train"][2]) == set(data["probe"][2]) == {1, 2, 3, 4}
    assert set(data["test"][2]) == {5, 6}
    assert [len(data[part][1]) for part in ("train", "probe", "test")] == [64, 40, 52]
    trained = {x.tobytes() for x in data["train"][0]}
    assert not any(x.tobytes() in trained for x in data["probe"][0])


def test_runs_and_resumes(benchmark, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(benchmark, "MODES", {"complementary": ("first half", "marginal")})
    monkeypatch.setattr(benchmark, "METHODS", ("mmd",))
    command = ["--seeds", "2", "--epochs", "1", "--csv", str(tmp_path / "rows.csv")]
    benchmark.main(command)
    first = capsys.readouterr().out
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert len(rows) == 4
    assert np.isfinite(rows[["leakage", "accuracy"]]).all(axis=None)
    monkeypatch.setattr(benchmark, "run", None)  # nothing is left to run
    benchmark.main(command)
    assert first.endswith(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (-0.01, 0.01, "yes"),
        (-0.015, -0.005, "yes, but it falls"),
        (-0.03, 0.01, "not shown"),
        (-0.03, -0.01, "no: it falls"),
    ],
)
def test_verdict(benchmark, low, high, says):
    assert benchmark.verdict(low, high) == says
