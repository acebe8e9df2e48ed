"""Every example runs in less than a minute, and its numbers show what its text says."""

import re

import numpy as np
import pytest
from docs.runner import ROOT, run_script

EXAMPLES = ROOT / "examples"
# Example -> pattern of numbers in its output, and what they must show.
CHECKS = {
    "lightning_module": (r"over chance ([\d.]+)", lambda plain, censored: censored < plain),
    "plot_autotransfer": (r"gain ([+-][\d.]+), interval", lambda gain: abs(gain) < 1),
    "plot_braindecode_callback": (r"critic ([\d.]+),", lambda watched, censored: censored < watched),
    "plot_custom_measure": (r"over chance ([\d.]+)", lambda plain, *censored: max(censored) < plain),
    "plot_leakage_report": (r"class ([\d.]+), accuracy", lambda plain, _, censored: censored < plain),
    "plot_moabb_benchmark": (r"([\d.]+) +[\d.]+ +160", lambda *scores: len(scores) == 10),
    "plot_own_epochs": (r"^\d +([\d.]+) +[\d.]+$", lambda *plain: len(plain) == 6 and np.mean(plain) > 0.6),
    "plot_torch_loop": (r"logistic ([\d.]+)", lambda free, _, strong: strong < 0.7 * free),
    "plot_winning_model": (r"on subject 6: ([\d.]+)", lambda score: score > 0.6),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_example(name, tmp_path):
    if name == "lightning_module":
        pytest.importorskip("lightning")
    run = run_script(EXAMPLES / f"{name}.py", tmp_path, figures=["results", "leakage"])
    assert run.code == 0, run.output[-3000:]
    assert run.seconds < 60
    # h5py warns about MOABB.
    assert [line for line in run.output.splitlines() if "Warning:" in line and "H5py" not in line] == []
    pattern, shows_it = CHECKS[name]
    assert shows_it(*map(float, re.findall(pattern, run.output, re.MULTILINE))), run.output[-3000:]
