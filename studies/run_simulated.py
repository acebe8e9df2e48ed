"""AutoTransfer on simulated subjects, where it is known which censoring should help.

Three scenarios: all subjects alike (censoring has nothing to remove and must do no harm); subjects that differ in
the power of their background activity, which is a fingerprint and says nothing about the class; and the same where
each subject also has a class share of its own, so that removing the subject altogether removes the task, too, and
the conditional mode should be preferred to the marginal one.

    python studies/run_simulated.py --out results/simulated                     # all scenarios, 3 seeds
    python studies/run_simulated.py --out results/simulated --scenario labels   # one of them
    python studies/run_simulated.py --out results/simulated --scenario labels --control

Interrupt and start again at will: finished trainings are kept.
"""

import argparse
from pathlib import Path

import pandas as pd

from braindecode_censor.paper import experiment, selection

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
# Conditional censoring draws as many trials of each class from every subject. That alone breaks the correlation of
# subject and label in the batches; a penalty of weight zero shows how much of the gain it explains.
CONTROL = [{"method": "mmd", "mode": "conditional", "weight": 0.0}]
TRAINING = {"max_epochs": 20, "batch_size": 64, "lr": 5e-3, "patience": 8}


def by_mode(scores):
    """Return mean and lower quartile of each mode's best setting by the paper's rule."""
    rows = []
    for mode in scores["mode"].dropna().unique():
        chosen = selection.choose(scores[scores["mode"] == mode])
        subjects = selection.scores_of_choice(scores, chosen).mean(axis=1)
        row = {"decoder": mode, "setting": chosen, "mean": subjects.mean()}
        rows.append(row | {"lower_quartile": selection.lower_quartile(subjects)})
    return rows


def run(name, population, out, seeds, jobs, grid=GRID, sampling="balanced"):
    """Run one scenario."""
    result = experiment.AutoTransfer(
        "simulated",
        out=out,
        preset=grid,
        dataset_options={**SIZE, **SCENARIOS[name], "seed": population},
        training=TRAINING if sampling == "balanced" else {**TRAINING, "sampling": sampling},
        top=4,
        seeds=seeds,
        jobs=jobs,
    ).run()
    table = pd.concat([result.table.reset_index(), pd.DataFrame(by_mode(result.scores))], ignore_index=True)
    table.insert(0, "population", population)
    table.insert(0, "scenario", name)
    return table


def main():
    """Run the scenarios asked for and write one CSV each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/simulated"), help="folder for results")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append", help="which; all if not given")
    parser.add_argument("--population", type=int, action="append", help="seed of the subjects; 11, 12 and 13")
    parser.add_argument("--control", action="store_true", help="conditional batches without a penalty")
    parser.add_argument("--sampling", choices=["balanced", "shuffle"], default="balanced", help="of batches")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the cross-validation")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    args = parser.parse_args()
    columns = ["scenario", "population", "decoder", "setting", "mean", "lower_quartile", "gain"]
    columns += ["gain_lower_quartile", "low", "high", "p", "seed_spread", "distinguishable"]
    for name in args.scenario or SCENARIOS:
        for population in args.population or [11, 12, 13]:
            variant = "-control" * args.control + "-shuffle" * (args.sampling == "shuffle")
            folder = args.out / f"{name}-{population}{variant}"
            grid = CONTROL if args.control else GRID
            table = run(name, population, folder, args.seeds, args.jobs, grid, args.sampling)
            table.to_csv(folder.with_name(f"{folder.name}.csv"), index=False)
            print(table[columns].to_string(index=False, float_format="{:.3f}".format), flush=True)


if __name__ == "__main__":
    main()
