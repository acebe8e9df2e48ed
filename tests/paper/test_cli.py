"""Does the shell command do what its help says, with exit codes and JSON for scripts?"""

import json
import os
import subprocess
import sys
import warnings

import pytest
import yaml
from figures.finished import few_figures
from tiny import DATA, GRID, TRAINING, copy_of, finished

from braindecode_censor.cli.main import hide_foreign_warnings, main
from braindecode_censor.paper.progress import best_so_far


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    grid = tmp_path_factory.mktemp("grid") / "grid.yml"
    grid.write_text(yaml.safe_dump({"grid": GRID, "training": TRAINING}))
    options = [f"--dataset-option={key}={value}" for key, value in DATA.items()]
    return ["--preset", str(grid), "--top", "1", *options]


@pytest.fixture(scope="module")
def made(command, tmp_path_factory):
    """What a process that was started from a shell printed, and its folder."""
    out = tmp_path_factory.mktemp("shell") / "out"
    arguments = ["run", *command, "--others", "riemann", "--out", str(out), "--json", "--no-report"]
    done = subprocess.run(
        [sys.executable, "-m", "braindecode_censor.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done, out


def test_run_prints_the_plan_one_object_and_nobody_elses_warnings(made, reference):
    done, out = made
    result = json.loads(done.stdout)
    assert {"selected", "table", "scores", "report", "chance", "leakage", "notes"} <= set(result)
    assert result["selected"] == reference.selected and result["chance"] == 0.5
    assert result["notes"] == []
    lines = done.stderr.strip().splitlines()
    assert lines[0].startswith("Grid: 4 settings") and "Trainings: 14" in lines[1]
    assert lines[2].startswith("Time: ") and len(lines) == 3, done.stderr
    assert not (out / "report.html").exists()


def test_resume_says_that_nothing_is_left_and_report_says_the_same(made, capsys):
    done, out = made
    result, keys = json.loads(done.stdout), finished(out)
    assert main(["resume", "--out", str(out), "--json", "--no-report"]) == 0
    captured = capsys.readouterr()
    again = json.loads(captured.out)
    assert finished(out) == keys
    assert all(again[name] == result[name] for name in ("selected", "chosen", "table", "scores"))
    assert captured.err.startswith("Nothing is left to train") and "Grid" not in captured.err
    with warnings.catch_warnings(record=True) as seen, few_figures("results", "leakage"):
        assert main(["report", "--out", str(out)]) == 0
    assert [str(warning.message) for warning in seen] == []  # nobody else's
    assert (out / "report.html").exists()
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0] == f"Selected: {result['selected']}." and max(map(len, lines)) <= 100
    assert "chance is 0.500" in text and "before censoring" in text and "Report: " in text
    assert "nan" not in text.lower() and "None" not in text and "-0.000" not in text


def test_our_warnings_are_sentences_and_nobody_elses_are_shown(capsys):
    shown = warnings.showwarning
    with hide_foreign_warnings():
        for name, text in (("mne.channels", "Montage name"), ("braindecode_censor.search", "few people")):
            warnings.warn_explicit(text, UserWarning, "file.py", 1, module=name)
    assert capsys.readouterr().err == "autotransfer: few people\n"
    assert warnings.showwarning is shown


def test_resume_adds_seeds_and_settings(reference, tmp_path, capsys):
    out = copy_of(reference.out, tmp_path / "out")
    more = tmp_path / "more.yml"
    more.write_text("[{method: mmd, weight: 0.2}]")
    before = finished(out)
    arguments = ["resume", "--out", str(out), "--preset", str(more), "--seeds", "2", "--json", "--no-report"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "Left: " in captured.err and len(json.loads(captured.out)["scores"]) == 24
    assert finished(out)[: len(before)] == before and len(finished(out)) == len(set(finished(out)))
    assert not (out / "report.html").exists()
    identity = json.loads((out / "experiment.json").read_text())["identity"]
    assert identity["seeds"] == [0, 1] and len(identity["grid"]) == 5


def test_a_dry_run_trains_nothing(command, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["run", *command, "--out", str(out), "--dry-run", "--seeds", "2", "--nested"]) == 0
    text = capsys.readouterr().out
    # 4 settings, 2 kept: 4 + (3 x 4 x 2 - 2) + 4 x 3 + 2 x 4 x (3 x 2 - 1)
    assert (
        "Trainings: 78 (4 search, 22 cross-validation, 52 nested)" in text and "Time: at most about" in text
    )
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--dataset", "simulatd"], "Did you mean 'simulated'"),
        (["run", "--dataset", "NO_SUCH_FOLDER"], "There is no folder of that name either"),
        (["run", "--dataset", "no/such/folder"], "dataset='no/such/folder' is no folder"),
        (["run", "--preset", "papr"], "Did you mean 'paper'"),
        (["run", "--dataset-option", "n_subjects"], "must look like key=value"),
        (["run", "--dataset-option", "=3"], "must look like key=value"),
        (["run", "--dataset-option", "n_trials=[1"], "'[1' is no number, word or list"),
        (["run", "--dataset-option", "n_subject=3"], "unexpected keyword argument 'n_subject'"),
        (["run", "--epochs", "0"], "max_epochs=0 must be an integer of at least 1"),
        (["run", "--epochs", "-3"], "max_epochs=-3 must be an integer of at least 1"),
        (["run", "--patience", "0"], "patience=0 must be an integer of at least 1"),
        (["run", "--seeds", "0"], "seeds=0 must be an integer of at least 1"),
        (["run", "--seed", "-1"], "seed=-1 must be an integer of at least 0"),
        (["run", "--jobs", "0"], "jobs=0 must be an integer of at least 1"),
        (["run", "--device", "tpu"], "device='tpu' is unknown"),
        (["run", "--paradigm", "P30"], "Did you mean 'P300'"),
        (["run", "--normalize", "prson"], "Did you mean 'subject'"),
        (["run", "--storage", "mysql://ann:secret@host/db"], "ann:***@host"),
        (["resume"], "holds no experiment"),
        (["report"], "holds no experiment"),
    ],
)
def test_errors_are_one_line_and_exit_code_one(arguments, message, tmp_path, capsys):
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 1
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.startswith("autotransfer: ") and not captured.out
    assert "secret" not in captured.err and not (tmp_path / "out").exists()


def test_options_reach_the_experiment(monkeypatch, tmp_path):
    seen = {}

    class Stop(ValueError):
        pass

    def catch(**arguments):
        seen.update(arguments)
        raise Stop

    monkeypatch.setattr("braindecode_censor.paper.experiment.AutoTransfer", catch)
    options = ["--normalize", "subject", "--paradigm", "P300", "--others", "riemann", "--epochs", "7"]
    assert main(["run", "--out", str(tmp_path), *options]) == 1
    assert seen["training"] == {"max_epochs": 7, "normalize": "subject"}
    assert seen["paradigm"] == "P300" and seen["others"] == ["riemann"]


def test_a_wrong_option_is_exit_code_two(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--sede", "3"])
    assert stopped.value.code == 2
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--help"])
    assert stopped.value.code == 0
    assert "goes on where it stopped" in " ".join(capsys.readouterr().out.split())


def test_best_so_far_is_a_mean_over_folds():
    assert best_so_far({}) == ""
    assert (
        best_so_far({"lucky": [0.9, 0.1], "steady": [0.6, 0.6]}) == "best so far steady (0.600 over 2 folds)"
    )
    assert "half" not in best_so_far({"half": [0.9], "whole": [0.5, 0.5]})
