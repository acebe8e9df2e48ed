"""The output of ``make demo``: its duration, the sentence, narrow tables with chance beside them, no warnings."""

import sys

import pytest

from braindecode_censor.cli.main import main
from braindecode_censor.paper import demo
from braindecode_censor.paper.grid import PRESETS

GRID = [{"method": "mmd", "mode": "conditional", "weight": 0.1}]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(PRESETS, "quick", (GRID, PRESETS["quick"][1]))
    monkeypatch.setattr(demo, "RECORDED", {**demo.RECORDED, "n_subjects": 4, "n_trials": 24})
    monkeypatch.setattr(demo, "TRAINING", {"max_epochs": 1, "patience": 1, "module__F1": 2, "module__D": 1})
    monkeypatch.setattr(demo, "_N_NEW", 2)
    monkeypatch.setattr(demo, "_TIME_LIMIT", 0.5)
    monkeypatch.setitem(sys.modules, "mne_lsl", None)  # tests/live shows the last part with a stream


def test_demo_prints_its_duration_then_sentences_then_numbers(small, tmp_path, capfd):
    assert main(["demo", "--out", str(tmp_path / "out"), "--quiet", "--no-report"]) == 0
    printed = capfd.readouterr()
    assert printed.err == ""
    assert printed.out.splitlines()[1].startswith("The demonstration takes about ")
    first, second = printed.out.split("Now subjects who were not in the training data ...")
    assert max(map(len, printed.out.splitlines())) <= 100
    lines = first.splitlines()
    selected = next(k for k, line in enumerate(lines) if line.startswith("Selected: mmd-conditional-0.1"))
    head = next(k for k, line in enumerate(lines) if line.lstrip().startswith("configuration "))
    assert selected < head, "first the sentence, then the numbers"
    assert "chance is 0.250" in first
    assert second.index("new simulated subjects") < second.index("plain network  ")
    assert "Chance is 0.25" in second
    assert "Live decoding is skipped: Live decoding needs MNE-LSL: install it" in second
    assert not [word for word in ("nan", "NaN", "None", "-0.000", "Warning") if word in printed.out]
