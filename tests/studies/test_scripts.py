"""Every command of the studies that a page names exists, and the other scripts run."""

import importlib
import re
from pathlib import Path

import pytest

from studies import decoder, paper_experiment

ROOT = Path(__file__).parents[2]
PAGES = ["studies/README.md", "docs/results.md", "docs/results/README.md", "docs/recipe.md"]


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist_with_their_options(page):
    commands = re.findall(r"python -m (studies\.[\w.]+)([^`\n]*)", (ROOT / page).read_text())
    for module, arguments in commands:
        source = Path(importlib.import_module(module).__file__).read_text()
        for option in re.findall(r"--[\w-]+", arguments):
            assert f'"{option}"' in source, (module, option)


def test_every_script_is_listed():
    listed = (ROOT / "studies" / "README.md").read_text()
    scripts = [path for path in (ROOT / "studies").rglob("*.py") if "__main__" in path.read_text()]
    for path in scripts:
        assert ".".join(path.relative_to(ROOT).with_suffix("").parts) in listed, path


def test_decoder_prints_a_row_per_recording(recording, capsys):
    decoder.main(["--data", str(recording), "--time", "60", "--candidates", "riemann", "--device", "cpu"])
    _, _, row = capsys.readouterr().out.splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:2] == ["tiny", "60 s"] and 0 <= float(cells[-1]) <= float(cells[-2]) <= 1


def test_paper_experiment_prints_the_table_of_a_scenario(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paper_experiment, "SIZE", {"n_subjects": 4, "n_trials": 16, "n_chans": 4})
    args = ["--scenario", "labels", "--population", "11", "--seeds", "1", "--max-epochs", "1", "--control"]
    paper_experiment.main([*args, "--out", str(tmp_path)])
    text = capsys.readouterr().out
    assert "labels, population 11" in text and "mmd-conditional-0" in text and "baseline" in text
