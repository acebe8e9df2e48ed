r"""Decoders for new subjects on real recordings: all candidates against the paper's protocol, by target data.

Every candidate is trained on all folds of several seeds. The same models are then tested with all target data
(``studies/transfer/target_data.py``).

    python studies/transfer/run.py --data DIR --out results/transfer --device cuda      # all recordings under DIR
    python studies/transfer/run.py --data DIR/erp_uci_smni --out results/transfer --seeds 1 --learning-curve \
        --candidates paper subject waveform riemann
    python studies/transfer/run.py --data DIR --out results/steps --candidates studies/transfer/recipe_steps.yml
    python studies/transfer/plot.py --results results/transfer

Interrupt and start again at will: finished trainings and their tests are in the store of a recording. Tables of other
recordings in the same folder stay as they are. The last lines are the table of README.
"""

import argparse
import gzip
import sys
from pathlib import Path

import pandas as pd
import torch
import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))

from braindecode_censor.search.family import find_candidates
from braindecode_censor.storage.files import clean, locked, write_atomically
from studies.recordings import find_recordings, read_recording
from studies.transfer.scores import ensemble_weights, score_seeds
from studies.transfer.study import CANDIDATES, TransferStudy
from studies.transfer.table import as_markdown, compare_targets
from studies.transfer.target_data import TARGET_DATA

#: Tables of a folder of results.
TABLES = ("scores", "weights", "cost", "learning")


def run_recording(folder, args):
    """Return the tables of one recording."""
    data, sfreq = read_recording(folder)
    candidates, _ = find_candidates(read_candidates(args.candidates))
    options = {
        "partners": args.partners,
        "targets": args.target_data,
        "device": args.device,
        "n_jobs": args.jobs,
    }
    study = TransferStudy(data, sfreq, args.out / folder.name, candidates, **options)
    result = study.run(range(args.seeds))
    tables = {"scores": score_seeds(result), "weights": ensemble_weights(result), "cost": result.cost}
    if args.learning_curve:
        tables["learning"] = study.learning_curve(result)
    return {name: table.assign(recording=folder.name) for name, table in tables.items()}


def read_candidates(names):
    """Return candidates by name, or those of a YAML file in the form of family.yml."""
    if len(names) == 1 and Path(names[0]).suffix == ".yml":
        content = yaml.safe_load(Path(names[0]).read_text())["candidates"]
        return [{"name": name, **options} for name, options in content.items()]
    return names


def read_tables(folder):
    """Return the tables of a folder of results."""
    paths = {name: Path(folder, f"{name}.csv.gz") for name in TABLES}
    return {name: pd.read_csv(path) for name, path in paths.items() if path.is_file()}


def write_tables(folder, tables):
    """Write tables; equal ones give equal bytes."""
    for name, table in tables.items():
        content = gzip.compress(table.to_csv(index=False, float_format="%.6g").encode(), mtime=0)
        write_atomically(Path(folder, f"{name}.csv.gz"), content)


def main(argv=None):
    """Run recordings, write their tables and print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--data", type=Path, nargs="+", required=True, help="folders of recordings, or folders that hold them"
    )
    add("--out", type=Path, default=Path("results/transfer"), help="folder for results")
    add("--candidates", nargs="+", default=CANDIDATES, help="names of candidates, or a YAML file of them")
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--partners", type=int, default=4, help="subjects with whom each subject is held out")
    add("--target-data", nargs="+", default=list(TARGET_DATA), help="see target_data.py")
    add("--learning-curve", action="store_true", help="also train the best candidate on fewer subjects")
    add("--jobs", type=int, default=1, help="trainings and tests at a time on a CPU")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    for folder in find_recordings(args.data):
        print(folder.name, flush=True)
        with locked(args.out):
            clean(args.out)
            tables = read_tables(args.out)
            for name, table in run_recording(folder, args).items():
                stored = tables.get(name, pd.DataFrame({"recording": []}))
                stored = stored[stored["recording"] != folder.name]
                tables[name] = pd.concat([stored, table], ignore_index=True) if len(stored) else table
            write_tables(args.out, tables)
    tables = read_tables(args.out)
    print(f"\n{as_markdown(compare_targets(tables['scores'], tables['cost']))}")


if __name__ == "__main__":
    main()
