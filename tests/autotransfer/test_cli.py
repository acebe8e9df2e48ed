"""Does the shell command do what its help says, with exit codes and JSON for scripts?"""

import json

import pytest
import yaml
from tiny import DATA, GRID, TRAINING, finished

from braindecode_censor.autotransfer.cli import main


@pytest.fixture
def command(tmp_path):
    grid = tmp_path / "grid.yml"
    grid.write_text(yaml.safe_dump({"grid": GRID, "training": TRAINING}))
    options = [f"--dataset-option={key}={value}" for key, value in DATA.items()]
    return ["--preset", str(grid), "--top", "1", *options]


def test_run_resume_and_report_print_the_same_json(command, tmp_path, capsys, reference):
    out = str(tmp_path / "out")
    assert main(["run", *command, "--out", out, "--json"]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert {"selected", "table", "scores", "report"} <= set(result)
    assert "Trainings: 14" in captured.err and "it/s" not in captured.err
    assert result["selected"] == reference.selected
    keys = finished(tmp_path / "out")
    assert main(["resume", "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert finished(tmp_path / "out") == keys
    (tmp_path / "out" / "report.html").unlink()
    assert main(["report", "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["table"] == result["table"]
    assert (tmp_path / "out" / "report.html").exists()
    assert main(["report", "--out", out]) == 0
    text = capsys.readouterr().out
    assert (
        f"Selected: {result['selected']}" in text and "Gain over the baseline" in text and "Report: " in text
    )


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
        (["run", "--preset", "papr"], "Did you mean 'paper'"),
        (["run", "--dataset-option", "n_subjects"], "must look like key=value"),
        (
            ["run", "--dataset-option", "n_subject=3"],
            "unexpected keyword argument 'n_subject'",
        ),
        (["resume"], "holds no experiment"),
        (["report"], "holds no experiment"),
    ],
)
def test_errors_are_one_line_and_exit_code_one(arguments, message, tmp_path, capsys):
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 1
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.startswith("autotransfer: ") and not captured.out
    assert not (tmp_path / "out").exists()


def test_a_wrong_option_is_exit_code_two(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--sede", "3"])
    assert stopped.value.code == 2
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--help"])
    assert stopped.value.code == 0
    assert "goes on where it stopped" in " ".join(capsys.readouterr().out.split())
