"""The study on simulated subjects: its split, its resuming and its verdicts."""

import numpy as np
import pandas as pd
import pytest

from studies.censoring import simulated


@pytest.fixture
def small(monkeypatch):
    for name, value in {"N_SEEN": 4, "N_UNSEEN": 2, "N_TRAIN": 16, "N_PROBE": 10}.items():
        monkeypatch.setattr(simulated, name, value)


def test_new_subjects_and_probed_trials_are_not_trained_on(small):
    data = simulated.simulate(3)
    assert set(data["train"][2]) == set(data["probe"][2]) == {1, 2, 3, 4}
    assert set(data["test"][2]) == {5, 6}
    assert [len(data[part][1]) for part in ("train", "probe", "test")] == [64, 40, 52]
    trained = {x.tobytes() for x in data["train"][0]}
    assert not any(x.tobytes() in trained for x in data["probe"][0])


def test_finished_rows_are_not_repeated(small, monkeypatch, tmp_path, capsys):
    command = ["--seeds", "2", "--epochs", "1", "--methods", "mmd", "--csv", str(tmp_path / "rows.csv")]
    simulated.main(command)
    first = capsys.readouterr().out
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert len(rows) == 2 * 3 * 2 and np.isfinite(rows[["leakage", "accuracy"]]).all(axis=None)
    monkeypatch.setattr(simulated, "run", None)  # Nothing is left to run.
    simulated.main(command)
    assert first.endswith(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.01, 0.01, "yes"),
        (-0.015, -0.005, "yes, but it falls"),
        (-0.03, 0.01, "not shown"),
        (-0.03, -0.01, "no: it falls"),
    ],
)
def test_verdict(low, high, verdict):
    assert simulated.verdict(low, high) == verdict
