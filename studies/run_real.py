r"""AutoTransfer on real recordings of public origin: the whole method, all five estimators, several seeds.

Needs folders of ``subject_XX.npz`` (see ``docs/datasets.md``) under ``--data``; none of them is a recording of the
paper, they stand in for its EEG and EMG tasks. The preset is made to be affordable on a laptop: the paper's protocol
with the grid of ``preset="quick"``, the best two settings of each method instead of three, 20 epochs with a learning
rate of 4e-3 instead of 500 with 1e-3, SSVEP at 64 Hz, the first 1.75 s of each gesture.

    python studies/run_real.py --data DIR --out results/real --jobs 2          # all, 3 seeds
    python studies/run_real.py --data DIR --out results/real --recording erp   # one of them
    python studies/run_real.py --data DIR --out results/real --dry-run         # how long it would take
    python studies/run_real.py --data DIR --out results/long --recording emg \
        --training max_epochs=60 patience=20 lr=0.01 batch_size=32                   # a longer training

Interrupt and start again at will: finished trainings are kept. The last lines are the tables of
``docs/real_recordings.md``.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from braindecode_censor.datasets import EpochsFolder, default_paradigm
from braindecode_censor.paper.experiment import AutoTransfer

#: Name -> folder, options of the dataset, options of the paradigm.
RECORDINGS = {
    "erp": ("erp_uci_smni", {}, {}),
    "ssvep": ("ssvep_exo", {}, {"resample": 64}),
    "emg": ("emg_myo", {"where": {"subset": "PreTrainingDataset"}}, {"tmax": 1.75}),
}
TRAINING = {"max_epochs": 20, "batch_size": 64, "lr": 4e-3, "patience": 5}
TOP = 2
COLUMNS = {
    "setting": "setting",
    "mean": "mean",
    "lower_quartile": "lower quartile",
    "worst": "worst",
    "gain": "gain",
    "interval": "95 % interval",
    "p": "p",
    "gain_lower_quartile": "gain of lower quartile",
    "seed_spread": "seed spread",
    "distinguishable": "beyond seeds",
}


def make_experiment(name, data, out, seeds, jobs, **training):
    """Return the experiment on one recording."""
    folder, options, cut = RECORDINGS[name]
    dataset = EpochsFolder(data / folder, **options)
    return AutoTransfer(
        dataset,
        out=out / name,
        preset="quick",
        training={**TRAINING, **training},
        paradigm=default_paradigm(dataset, **cut),
        top=TOP,
        seeds=seeds,
        jobs=jobs,
    )


def as_markdown(table):
    """Return a result's table as Markdown."""
    table = table.copy()
    table["interval"] = [f"{low:+.3f} to {high:+.3f}" for low, high in zip(table["low"], table["high"])]
    for name in ("mean", "lower_quartile", "worst", "p", "seed_spread"):
        table[name] = table[name].map("{:.3f}".format)
    for name in ("gain", "gain_lower_quartile"):
        table[name] = table[name].map("{:+.3f}".format)
    table["distinguishable"] = table["distinguishable"].map({True: "yes", False: "no"})
    own = table.index == "baseline"
    table.loc[own, [name for name in COLUMNS if name not in ("mean", "lower_quartile", "worst")]] = ""
    rows = [["decoder", *COLUMNS.values()], ["---"] * (len(COLUMNS) + 1)]
    rows += [[name, *map(str, row)] for name, row in zip(table.index, table[list(COLUMNS)].to_numpy())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def describe_trainings(folder):
    """Say how much was trained, and when trainings were at their best."""
    records = [json.loads(path.read_bytes()) for path in (folder / "trainings").glob("*.json")]
    best = np.array([record["best_epoch"] for record in records if "best_epoch" in record])
    last = max(record["params"]["max_epochs"] for record in records)
    minutes = sum(record["seconds"] for record in records) / 60
    first, end = (best == 1).mean(), (best >= last - 1).mean()
    return (
        f"{len(records)} trainings, {minutes:.0f} minutes; lowest validation loss in the first epoch: {first:.0%}, "
        f"in one of the last two: {end:.0%}"
    )


def main():
    """Run the recordings asked for and print one table each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the recordings' folders")
    parser.add_argument("--out", type=Path, default=Path("results/real"), help="folder for results")
    parser.add_argument("--recording", choices=RECORDINGS, action="append", help="which; all if not given")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the cross-validation")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument("--training", nargs="*", default=[], metavar="NAME=NUMBER", help="how to train")
    parser.add_argument("--dry-run", action="store_true", help="only say how long it would take")
    args = parser.parse_args()
    pairs = (pair.partition("=") for pair in args.training)
    training = {name: float(value) if "." in value else int(value) for name, _, value in pairs}
    for name in args.recording or RECORDINGS:
        experiment = make_experiment(name, args.data, args.out, args.seeds, args.jobs, **training)
        if args.dry_run:
            print(f"{name}: {experiment.plan()['text']}\n", flush=True)
            continue
        result = experiment.run()
        baseline = result.scores[result.scores["setting"] == "baseline"].groupby("seed")["score"].mean()
        print(f"\n### {name}\n\n{as_markdown(result.table)}\n")
        print("Baseline by seed:", ", ".join(f"{score:.3f}" for score in baseline))
        print(describe_trainings(args.out / name), flush=True)


if __name__ == "__main__":
    main()
