r"""The paper's AutoTransfer on public recordings, and on simulated subjects where the answer is known.

None of the recordings is one of the paper. To be affordable on a laptop, trainings have 20 epochs with a learning rate
of 4e-3 (simulated subjects 5e-3) instead of 500 with 1e-3, SSVEP has 64 Hz and EMG the first 1.75 s of each gesture.

    python -m studies.paper_experiment --data DIR --out results/real --jobs 2          # recordings, 3 seeds
    python -m studies.paper_experiment --scenario labels --out results/simulated       # simulated subjects
    python -m studies.paper_experiment --scenario labels --control --out results/simulated

Scenarios: subjects who are alike; who differ in background power, which says nothing about the class; and who also
differ in how often each class occurs, so that marginal censoring removes the task, too. Conditional censoring draws as
many trials of each class from every subject; ``--control`` measures these batches without a penalty.
"""

import argparse
from pathlib import Path

from braindecode_censor.datasets import default_paradigm
from braindecode_censor.paper.experiment import AutoTransfer
from studies.recordings import find_recordings, open_dataset

#: Recording -> options of its paradigm.
CUT = {"ssvep_exo": {"resample": 64}, "emg_myo": {"tmax": 1.75}}
TRAINING = {"max_epochs": 20, "batch_size": 64, "lr": 4e-3, "patience": 5}
SIZE = {"n_subjects": 8, "n_trials": 80, "preset": "medium", "n_chans": 8}
EFFECTS = {"power": 1.0, "orientation": 20.0, "rotation": 2.0, "latency": 0.005, "offset": 6.0}
SCENARIOS = {
    "alike": {"shift": 0.0},
    "shift": {"shift": 1.0, "effects": EFFECTS},
    "labels": {"shift": 1.0, "effects": EFFECTS, "label_shift": 2.0},
}
GRID = [
    {"method": "mmd", "mode": ["marginal", "conditional"], "weight": [0.3, 1.0]},
    {"method": "adv", "mode": ["marginal", "conditional"], "weight": [0.1, 0.3]},
]
CONTROL = [{"method": "mmd", "mode": "conditional", "weight": 0.0}]
SIMULATED_TRAINING = {"max_epochs": 20, "batch_size": 64, "lr": 5e-3, "patience": 8}
_COLUMNS = [
    "setting",
    "mean",
    "lower_quartile",
    "worst",
    "gain",
    "low",
    "high",
    "p",
    "seed_spread",
    "distinguishable",
]


def experiment_on_recording(folder, args):
    """Return the experiment with the grid of ``preset="quick"`` on a recording."""
    dataset = open_dataset(folder)
    return AutoTransfer(
        dataset,
        args.out / folder.name,
        "quick",
        training={**TRAINING, "max_epochs": args.max_epochs},
        paradigm=default_paradigm(dataset, **CUT.get(folder.name, {})),
        n_top=2,
        n_seeds=args.seeds,
        n_jobs=args.jobs,
    )


def experiment_on_scenario(name, population, args):
    """Return the experiment on simulated subjects; the grid is small."""
    return AutoTransfer(
        "simulated",
        args.out / f"{name}-{population}{'-control' * args.control}",
        CONTROL if args.control else GRID,
        dataset_options={**SIZE, **SCENARIOS[name], "seed": population},
        training={**SIMULATED_TRAINING, "max_epochs": args.max_epochs},
        n_top=4,
        n_seeds=args.seeds,
        n_jobs=args.jobs,
    )


def main(argv=None):
    """Run the experiments and print a table each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, nargs="+", default=[], help="folders of recordings, or folders that hold them")
    add("--scenario", choices=SCENARIOS, nargs="+", default=[], help="kinds of simulated subjects")
    add("--population", type=int, nargs="+", default=[11, 12, 13], help="seeds of simulated subjects")
    add("--control", action="store_true", help="batches of conditional censoring without a penalty")
    add("--out", type=Path, default=Path("results/paper"), help="folder for results")
    add("--max-epochs", type=int, default=20, help="epochs of a training")
    add("--seeds", type=int, default=3, help="seeds of the cross-validation")
    add("--jobs", type=int, default=1, help="trainings at a time")
    add("--dry-run", action="store_true", help="only print how long it would take")
    args = parser.parse_args(argv)
    if not args.data and not args.scenario:
        parser.error("--data or --scenario is needed.")
    experiments = {
        f.name: experiment_on_recording(f, args) for f in (find_recordings(args.data) if args.data else ())
    }
    for name in args.scenario:
        for population in args.population:
            experiments[f"{name}, population {population}"] = experiment_on_scenario(name, population, args)
    for title, experiment in experiments.items():
        if args.dry_run:
            print(f"{title}: {experiment.plan()['text']}", flush=True)
            continue
        table = experiment.run(report=False).table
        print(f"{title}\n{table[_COLUMNS].to_string(float_format='{:.3f}'.format)}\n", flush=True)


if __name__ == "__main__":
    main()
