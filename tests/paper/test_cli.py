"""The shell of the experiment: what it prints, its exit codes, and JSON for scripts."""

import json
import os
import subprocess
import sys
import warnings

import pandas as pd
import pytest
import yaml
from figures.finished import few_figures
from moabb.paradigms import P300
from tiny import DATA, GRID, TRAINING, copy_of, finished

from braindecode_censor import AutoTransfer
from braindecode_censor.cli.main import hide_foreign_warnings, main
from braindecode_censor.search.family import default_names


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    grid = tmp_path_factory.mktemp("grid") / "grid.yml"
    grid.write_text(yaml.safe_dump({"grid": GRID, "training": TRAINING}))
    options = [f"--dataset-option={key}={value}" for key, value in DATA.items()]
    return ["--preset", str(grid), "--top", "1", *options]


@pytest.fixture(scope="module")
def made(command, tmp_path_factory):
    """The output of a process that a shell started, and its folder."""
    out = tmp_path_factory.mktemp("shell") / "out"
    arguments = ["run", *command, "--others", "riemann", "--out", str(out), "--json", "--no-report"]
    done = subprocess.run(
        [sys.executable, "-m", "braindecode_censor.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done, out


def test_run_prints_plan_and_one_object(made, reference):
    done, out = made
    result = json.loads(done.stdout)
    assert {"selected", "table", "scores", "report", "chance", "leakage", "notes"} <= set(result)
    assert result["selected"] == reference.selected and result["chance"] == 0.5
    assert result["notes"] == []
    lines = done.stderr.strip().splitlines()
    assert lines[0].startswith("Grid: 4 configurations") and "Trainings: 14" in lines[1]
    assert lines[2].startswith("Time: about ") and len(lines) == 3, done.stderr
    assert not (out / "report.html").exists()


def test_resume_of_a_finished_experiment_trains_nothing(made, capsys):
    done, out = made
    result, keys = json.loads(done.stdout), finished(out)
    assert main(["resume", "--out", str(out), "--json", "--no-report"]) == 0
    captured = capsys.readouterr()
    again = json.loads(captured.out)
    assert finished(out) == keys
    assert all(again[name] == result[name] for name in ("selected", "selected_by_rule", "table", "scores"))
    assert captured.err.startswith("Nothing remains to be trained") and "Grid" not in captured.err
    with warnings.catch_warnings(record=True) as shown, few_figures("results", "leakage"):
        assert main(["report", "--out", str(out)]) == 0
    assert [str(warning.message) for warning in shown] == []
    assert (out / "report.html").exists()
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0] == f"Selected: {result['selected']}." and max(map(len, lines)) <= 100
    assert "chance is 0.500" in text and "A classical reference" in text and "Report: " in text
    assert "nan" not in text.lower() and "None" not in text and "-0.000" not in text


def test_only_warnings_of_this_package_are_shown(capsys):
    shown = warnings.showwarning
    with hide_foreign_warnings():
        for name, text in (("mne.channels", "Montage name"), ("braindecode_censor.search", "few subjects")):
            warnings.warn_explicit(text, UserWarning, "file.py", 1, module=name)
    assert capsys.readouterr().err == "autotransfer: few subjects\n"
    assert warnings.showwarning is shown


def test_resume_adds_seeds_and_configurations(reference, tmp_path, capsys):
    out = copy_of(reference.out, tmp_path / "out")
    grid, keys = tmp_path / "more.yml", finished(out)
    grid.write_text("[{method: mmd, weight: 0.2}]")
    arguments = ["resume", "--out", str(out), "--preset", str(grid), "--seeds", "2", "--json", "--no-report"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    scores = pd.DataFrame(json.loads(captured.out)["scores"])
    assert "Remaining: " in captured.err and len(scores) == 24 and set(scores["seed"]) == {0, 1}
    assert finished(out)[: len(keys)] == keys and len(finished(out)) == len(set(finished(out)))
    both = reference.scores.merge(scores, on=["setting", "seed", "subject"])
    assert both["score_x"].tolist() == pytest.approx(both["score_y"].tolist()) and len(both) >= 8


def test_dry_run_trains_nothing(command, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["run", *command, "--out", str(out), "--dry-run", "--seeds", "2"]) == 0
    text = capsys.readouterr().out
    # 4 configurations, 2 of them cross-validated: 4 + (3 x 4 x 2 - 2)
    assert "Trainings: 26 (4 search, 22 cross-validation)" in text and "Time: about" in text
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--dataset", "simulatd"], "Did you mean 'simulated'"),
        (["run", "--dataset", "no/such/folder"], "dataset='no/such/folder' is neither a folder"),
        (["run", "--dataset-option", "n_subjects"], "must look like key=value"),
        (["run", "--dataset-option", "n_trials=[1"], "'[1' is no number, word or list"),
        (["run", "--dataset-option", "n_subject=3"], "unexpected keyword argument 'n_subject'"),
        (["run", "--epochs", "0"], "max_epochs=0 must be an integer of at least 1"),
        (["run", "--seed", "-1"], "random_state=-1 must be an integer of at least 0"),
        (["run", "--paradigm", "P30"], "Did you mean 'P300'"),
        (["resume"], "holds no experiment"),
        (["report"], "holds no experiment"),
    ],
)
def test_errors_are_one_line_and_exit_code_one(arguments, message, tmp_path, capsys):
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 1
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.startswith("autotransfer: ") and not captured.out
    assert not (tmp_path / "out").exists()


def test_options_reach_the_experiment(monkeypatch, tmp_path):
    experiments = []
    monkeypatch.setattr(AutoTransfer, "plan", lambda self: experiments.append(self))
    options = ["--normalize", "subject", "--paradigm", "P300", "--others", "riemann", "--epochs", "7"]
    options += ["--optuna-trials", "5", "--seed", "3", "--seeds", "2", "--top", "4", "--jobs", "2"]
    with pytest.raises(TypeError):  # The plan that is printed next is missing.
        main(["run", "--out", str(tmp_path), *options, "--storage", "sqlite:///x.db"])
    (experiment,) = experiments
    assert experiment.training["max_epochs"] == 7 and experiment.training["normalize"] == "subject"
    assert isinstance(experiment.paradigm, P300) and list(experiment.others) == ["riemann"]
    assert experiment.storage == "sqlite:///x.db" and experiment.n_optuna_trials == 5
    assert (experiment.seeds, experiment.n_top, experiment.n_jobs) == ([3, 4], 4, 2)


def test_exit_codes_of_wrong_options_and_help(capsys):
    for arguments, code in ((["run", "--sede", "3"], 2), (["run", "--help"], 0), (["fit", "--help"], 0)):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == code
    text = " ".join(capsys.readouterr().out.split())
    assert "`autotransfer resume --out DIR` continues" in text and "(default: quick)" in text
    assert "default: None" not in text and "default: False" not in text
    text = text.replace("- ", "-")  # Help breaks lines after hyphens.
    assert all(name in text for name in default_names()), "fit --help names the candidates"
