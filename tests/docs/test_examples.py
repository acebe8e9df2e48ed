"""Every example runs in less than a minute, and its numbers show what its text says."""

import re

import pytest
from docs.runner import ROOT, run_script

EXAMPLES = ROOT / "examples"


def numbers(pattern, output):
    """Return the numbers after a pattern, in order."""
    return [float(text) for text in re.findall(pattern, output)]


def lightning_module(output):
    plain, censored = numbers(r"over chance ([\d.]+)", output)
    assert censored < plain and min(numbers(r"new subject ([\d.]+)", output)) > 0.6


def autotransfer(output):
    assert re.match(r"(mmd|adv)-(marginal|conditional)-0\.3$", output.splitlines()[0])
    assert "report.html" in output


def callback(output):
    watched, censored = numbers(r"critic ([\d.]+),", output)
    assert censored < watched and min(numbers(r"never seen ([\d.]+)", output)) > 0.6


def custom_measure(output):
    plain, mmd, own = numbers(r"over chance ([\d.]+)", output)
    assert own < plain and mmd < plain


def leakage_report(output):
    plain, _, conditional = numbers(r"within class ([\d.]+), accuracy", output)
    (ideal,) = numbers(r"\nwithin class +(-?[\d.]+)", output)
    assert (
        conditional < plain and abs(ideal) < 0.05
    )  # The class tells nothing about the subject within a class.


def moabb_benchmark(output):
    rows = re.findall(r"^ *EEGNet, (?:plain|adversary) +\d +([\d.]+) +[\d.]+ +160", output, re.MULTILINE)
    assert len(rows) == 10 and all(0 <= float(score) <= 1 for score in rows)


def own_epochs(output):
    rows = re.findall(r"^(\d) +([\d.]+) +([\d.]+)$", output, re.MULTILINE)
    plain, censored = (sum(float(row[k]) for row in rows) / len(rows) for k in (1, 2))
    assert len(rows) == 6 and plain > 0.6
    assert numbers(r"gain ([+-][\d.]+)", output) == [pytest.approx(censored - plain, abs=2e-3)]


def torch_loop(output):
    free, _, strong = numbers(r"logistic ([\d.]+)", output)
    assert strong < 0.7 * free and min(numbers(r"task accuracy ([\d.]+)", output)) > 0.8


def winning_model(output):
    assert re.match(r"mmd-(marginal|conditional)-0\.3$", output.splitlines()[0])
    assert numbers(r"on subject 6: ([\d.]+)", output)[0] > 0.6


CHECKS = {
    "lightning_module": lightning_module,
    "plot_autotransfer": autotransfer,
    "plot_braindecode_callback": callback,
    "plot_custom_measure": custom_measure,
    "plot_leakage_report": leakage_report,
    "plot_moabb_benchmark": moabb_benchmark,
    "plot_own_epochs": own_epochs,
    "plot_torch_loop": torch_loop,
    "plot_winning_model": winning_model,
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
    CHECKS[name](run.output)
