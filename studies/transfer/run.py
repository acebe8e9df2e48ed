r"""Decoders for new subjects on real recordings: all candidates against the paper's protocol, by target data.

Every candidate is trained on all folds of several seeds. The same models are then tested with all target data
(``studies/transfer/target_data.py``).

    python -m studies.transfer.run --data DIR --out results/transfer --device cuda      # all recordings under DIR
    python -m studies.transfer.run --data DIR/erp_uci_smni --out results/transfer --seeds 1 --learning-curve \
        --candidates paper subject waveform riemann
    python -m studies.transfer.run --data DIR --out results/steps --candidates studies/transfer/recipe_steps.yml
    python -m studies.transfer.plot --results results/transfer

Interrupt and start again at will: finished trainings and their tests are in the store of a recording. Tables of other
recordings in the same folder stay as they are. The last lines are the table of the results page.
"""

import argparse
from pathlib import Path

import torch
import yaml

from braindecode_censor.search.family import find_candidates
from braindecode_censor.storage.files import clean, locked
from studies.recordings import find_recordings, read_recording
from studies.tables import read_tables, replace_rows, write_tables
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
            tables = read_tables(args.out, TABLES)
            replace_rows(tables, run_recording(folder, args))
            write_tables(args.out, tables)
    tables = read_tables(args.out, TABLES)
    print(f"\n{as_markdown(compare_targets(tables['scores'], tables['cost']))}")


if __name__ == "__main__":
    main()
