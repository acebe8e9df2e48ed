"""A reader of the paper runs the experiment, continues it with one seed more, and draws its tables."""

import runpy
import shlex
import shutil
import sys
import warnings
from pathlib import Path

import yaml
from journeys.readme import block
from tiny import DATA, GRID, TRAINING, finished

import braindecode_censor as bc
from braindecode_censor.cli.main import main

ROOT, OUT = Path(__file__).parents[2], Path("paper_results")
warnings.simplefilter("ignore")
Path("grid.yml").write_text(yaml.safe_dump({"grid": GRID, "training": TRAINING}))
options = " ".join(f"--dataset-option {name}={value}" for name, value in DATA.items())
short = {"quick --seeds 3 --jobs 2": f"grid.yml --seeds 2 --top 1 --no-report --quiet {options}"}
run, report = block("sh", "autotransfer run", short).splitlines()
assert main(shlex.split(run)[1:]) == 0
before = finished(OUT)

# The same experiment in Python trains nothing; the shell adds a seed to it.
experiment = bc.AutoTransfer("simulated", OUT, "grid.yml", n_seeds=2, n_top=1, dataset_options=DATA)
result = experiment.run(report=False, verbose=0)
assert finished(OUT) == before
assert result.selected.startswith(("mmd-", "adv-"))
assert {"baseline", "mmd", "adv", "AutoTransfer (paper)"} <= set(result.table.index)
assert main(["resume", "--out", str(OUT), "--seeds", "3", "--no-report", "--quiet"]) == 0
assert finished(OUT)[: len(before)] == before and len(finished(OUT)) > len(before)

assert main(shlex.split(report)[1:]) == 0
assert (OUT / "report.html").is_file()
shutil.rmtree(OUT / "figures")
sys.argv = ["plot_tables.py", "--results", str(OUT)]
runpy.run_path(str(ROOT / "paper_figures" / "plot_tables.py"), run_name="__main__")
assert {"summary.csv", "summary.tex"} <= {path.name for path in (OUT / "figures").iterdir()}
