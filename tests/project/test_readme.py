"""README: its code as pasted, its numbers, its links."""

import re

from docs.blocks import ROOT, page_script
from docs.runner import run_script
from subjects import mixed_subjects
from tiny import DATA, ONE_EPOCH

from braindecode_censor.datasets import save_subject

README = ROOT / "README.md"
_OPTIONS = " ".join(f"--dataset-option {name}={value}" for name, value in DATA.items())
# Hours become seconds; the quick start stays as it is.
SHORT = {
    "--time 10m": "--time none --candidates riemann waveform",
    "normalize: population}": "normalize: population, max_steps: 20}",
    "--preset quick --seeds 3 --jobs 2": f"{_OPTIONS} --preset grid.yml --no-report",
}


def test_code_runs_as_pasted(tmp_path):
    X, y, subjects = mixed_subjects(5, 20)
    for k in range(1, 6):
        path = tmp_path / ("recordings" if k < 5 else "") / f"subject_{k if k < 5 else 8:02}.npz"
        save_subject(path, X[subjects == k], y[subjects == k], sfreq=64.0, unit="uV")
    grid = {"grid": [{"method": "mmd", "mode": "marginal", "weight": 0.1}], "training": ONE_EPOCH}
    (tmp_path / "grid.yml").write_text(str(grid))
    script = tmp_path / "readme.py"
    script.write_text(page_script(README, SHORT))
    run = run_script(script, tmp_path, figures=["results"])
    assert run.code == 0, run.output[-3000:]
    accuracy = float(re.search(r"^accuracy ([\d.]+) chance 0.25$", run.output, re.MULTILINE)[1])
    assert accuracy > 0.5
    assert (tmp_path / "decoder" / "model_card.md").is_file() and (tmp_path / "predictions.csv").is_file()
    assert (tmp_path / "paper_results" / "report.html").is_file()  # by the second command


def test_start_page_has_the_same_ten_lines():
    first = re.search(r"```python\n.*?```", README.read_text(), re.DOTALL)[0]
    assert first in (ROOT / "docs" / "index.md").read_text()


def test_links_work_on_a_package_index():
    text = README.read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    own = r"https://(?:github\.com|raw\.githubusercontent\.com)/braindecode/braindecode-censor/(?:blob/)?main/([^)#]+)"
    assert [path for path in re.findall(own, text) if not (ROOT / path).is_file()] == []


def test_numbers_are_those_of_the_stored_table():
    table = README.read_text().split("results table: begin")[1].split("results table: end")[0]
    stored = (ROOT / "docs" / "results" / "tiers.md").read_text().replace("−", "-")
    numbers = re.findall(r"[-+]?\d\.\d{3}", table)
    assert len(numbers) == 9 * 6
    assert [number for number in numbers if number not in stored] == []
