"""Does the figure show what its caption says, and does the documentation list the presets there are?"""

import importlib.util
from pathlib import Path

import pytest

from braindecode_censor.datasets.simulated_design import EFFECTS, PRESETS

ROOT = Path(__file__).parents[2]


def test_the_figure_shows_one_person_twice_without_shift_and_two_with_it():
    spec = importlib.util.spec_from_file_location(
        "plot_simulated", ROOT / "paper_figures" / "plot_simulated.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    figure = module.draw(n_trials=60)
    early = {}
    for axis in figure.axes:
        wave = {line.get_label(): line.get_ydata() for line in axis.lines}["Target"]
        early[axis.get_title()] = wave[int(0.2 * 128)]
    assert len(early) == 8
    assert early["shift 0, subject 1, Pz"] == pytest.approx(early["shift 0, subject 3, Pz"], abs=5)
    assert abs(early["shift 1, subject 1, Pz"] - early["shift 1, subject 3, Pz"]) > 10


def test_the_table_of_presets_is_the_code():
    text = (ROOT / "docs" / "datasets.md").read_text()
    for kind, presets in PRESETS.items():
        for preset, values in presets.items():
            assert f"| {kind} | {preset} | {values['snr']} | {values['shift']} |" in text
    assert f"| rotation | {EFFECTS['erp']['rotation']:g} degrees" in text
    assert f"| orientation | {EFFECTS['erp']['orientation']:g} degrees" in text
    assert (
        f"| latency | {1000 * EFFECTS['erp']['latency']:g} ms | {1000 * EFFECTS['emg']['latency']:g} ms"
        in text
    )
