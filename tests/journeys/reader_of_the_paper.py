"""A reader of the paper repeats its search and its figures, stops, goes on, and adds a seed."""

import runpy
import shutil
import sys
import warnings
from pathlib import Path

from journeys.readme import TEXT, block, run
from tiny import DATA, TRAINING, finished

import braindecode_censor as bc
from braindecode_censor.cli.main import main

ROOT = Path(__file__).parents[2]
warnings.simplefilter("ignore")
Path("grid.yml").write_text(f"""
grid:
  - {{method: mmd, mode: [marginal, conditional], weight: 0.1}}
  - {{method: adv, mode: marginal, weight: 0.1}}
training: {TRAINING}
""")
small = {'"quick", seeds=3, jobs=2': f'"grid.yml", seeds=2, top=1, dataset_options={DATA}'}
result = run(block("python", "AutoTransfer(", **small))["result"]
assert result.selected.startswith(("mmd-", "adv-")) and result.report.is_file()
assert {"baseline", "mmd", "adv", "AutoTransfer (paper)"} <= set(result.table.index)

# `make figures RESULTS=results` draws what the report shows; here only its tables, which are quick.
assert "make figures RESULTS=results" in TEXT
drawn = {path.name for path in Path("results/figures").iterdir()}
assert {path.rpartition(".")[2] for path in drawn} == {"pdf", "png", "csv", "tex"}
shutil.rmtree("results/figures")
before = finished(Path("results"))
sys.argv = ["plot_tables.py", "--results", "results"]
runpy.run_path(str(ROOT / "paper_figures" / "plot_tables.py"), run_name="__main__")
assert {"summary.csv", "summary.tex"} <= {path.name for path in Path("results/figures").iterdir()} <= drawn

# The same call again trains nothing, and the shell adds a seed to the finished folder.
again = bc.AutoTransfer("simulated", "results", "grid.yml", seeds=2, top=1, dataset_options=DATA).run(
    report=False
)
assert finished(Path("results")) == before and again.selected == result.selected
assert main(["resume", "--out", "results", "--seeds", "3", "--no-report", "--quiet"]) == 0
assert finished(Path("results"))[: len(before)] == before and len(finished(Path("results"))) > len(before)
