"""The code on the pages, run from top to bottom in an empty folder."""

import pytest
from docs.blocks import ROOT, has_code, page_script
from docs.runner import run_script
from tiny import DATA, ONE_EPOCH

_OPTIONS = " ".join(f"--dataset-option {name}={value}" for name, value in DATA.items())
# Page -> texts that are replaced, so that hours become seconds.
PAGES = {
    "datasets": {},
    "live_decoding": {},
    "method": {},
    "new_subject": {"--time 10m": "--time none --candidates riemann waveform --quiet"},
    "paper": {
        "--preset quick --seeds 3 --jobs 2": f"{_OPTIONS} --preset small.yml --seeds 2 --no-report",
        "experiment.run()": "experiment.run(report=False)",
        '"simulated", out="results_python", preset="quick", n_seeds=3, n_jobs=2': (
            f'"simulated", "results_python", "small.yml", dataset_options={DATA}, n_seeds=1'
        ),
        "--seeds 4": "--seeds 3 --no-report",
        "--dataset simulated --preset grid.yml": f"--dataset simulated {_OPTIONS} --preset grid.yml",
        "max_epochs: 200, patience: 20": "max_epochs: 1, batch_size: 16",
    },
    "recipe": {},
    "speed": {
        "--dataset errp --preset paper --seeds 5": f"--dataset simulated {_OPTIONS} --preset small.yml --no-report",
        "--device cuda": "--device cpu",
        "--jobs 16": "--jobs 1",
    },
    "training": {"max_steps: 1500": "max_steps: 20"},
}
# Pages with tests of their own; index has the code of README.
ELSEWHERE = {
    "index": "tests/project/test_readme.py",
    "extending": "test_extending.py",
}


@pytest.mark.parametrize("page", PAGES)
def test_page(page, tmp_path):
    grid = {"grid": [{"method": "mmd", "mode": "marginal", "weight": 0.1}], "training": ONE_EPOCH}
    (tmp_path / "small.yml").write_text(str(grid))
    script = tmp_path / f"{page}.py"
    script.write_text(page_script(ROOT / "docs" / f"{page}.md", PAGES[page]))
    run = run_script(script, tmp_path, figures=["results"])
    assert run.code == 0, run.output[-3000:]


def test_every_page_with_code_is_listed():
    pages = {path.stem for path in (ROOT / "docs").glob("*.md") if has_code(path)}
    assert pages == {*PAGES, *ELSEWHERE}
