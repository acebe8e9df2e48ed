"""Does every example run, quickly, and show what its text says?"""

import re

import pytest
from docs.runner import ROOT, run_script

EXAMPLES = ROOT / "examples"


def numbers(pattern, output):
    """Numbers in the output, in order; each example prints those that its text is about."""
    return [float(found) for found in re.findall(pattern, output)]


def lightning_module(output):
    plain, censored = numbers(r"over chance ([\d.]+)", output)
    assert censored < plain
    assert all(score > 0.6 for score in numbers(r"new subject ([\d.]+)", output))


def callback(output):
    watched, censored = numbers(r"critic ([\d.]+),", output)
    assert censored < watched
    assert all(score > 0.6 for score in numbers(r"never seen ([\d.]+)", output))


def own_epochs(output):
    rows = re.findall(r"^(\d) +([\d.]+) +([\d.]+)$", output, re.MULTILINE)
    assert [row[0] for row in rows] == list("123456")
    plain, censored = (sum(float(row[k]) for row in rows) / 6 for k in (1, 2))
    assert plain > 0.6
    assert numbers(r"gain ([+-][\d.]+)", output) == [pytest.approx(censored - plain, abs=2e-3)]


def moabb_benchmark(output):
    rows = re.findall(r"^ *EEGNet, (plain|adversary) +(\d) +([\d.]+) +([\d.]+) +160", output, re.MULTILINE)
    assert sorted(rows)[0][:2] == ("adversary", "1")
    assert len(rows) == 10
    assert all(0 <= float(row[3]) <= 1 for row in rows)


def autotransfer(output):
    assert re.match(r"(mmd|adv)-(marginal|conditional)-0\.3$", output.splitlines()[0])
    assert "AutoTransfer (paper)" in output
    assert "report.html" in output


def leakage_report(output):
    plain, _, conditional = numbers(r"within class ([\d.]+), accuracy", output)
    assert conditional < plain
    ideal = numbers(r"\nwithin class +(-?[\d.]+)", output)
    assert len(ideal) == 1
    assert abs(ideal[0]) < 0.05  # the class tells nothing about the subject within a class


def custom_measure(output):
    plain, mmd, fisher = numbers(r"over chance ([\d.]+)", output)
    assert fisher < plain
    assert mmd < plain


def torch_loop(output):
    free, _, strong = numbers(r"logistic ([\d.]+)", output)
    assert strong < 0.7 * free
    assert all(accuracy > 0.8 for accuracy in numbers(r"task accuracy ([\d.]+)", output))


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
WITHOUT_FIGURE = {"lightning_module", "plot_autotransfer"}


def test_every_example_is_checked():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(CHECKS)


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_example(name, tmp_path):
    if name == "lightning_module":
        pytest.importorskip("lightning")
    run = run_script(EXAMPLES / f"{name}.py", tmp_path, figures=["results", "leakage"])
    assert run.code == 0, run.output[-3000:]
    assert run.seconds < 60
    assert run.figures > 0 or name in WITHOUT_FIGURE
    # h5py complains about MOABB, which we cannot mend
    assert [line for line in run.output.splitlines() if "Warning:" in line and "H5py" not in line] == []
    CHECKS[name](run.output)
