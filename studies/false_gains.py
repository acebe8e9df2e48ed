"""How often does the test of the censoring study find a gain where there is none? Studies made from a real one.

People and seeds of a study are mixed at random, all settings in the same way. So settings vary between people and
seeds, and together, as they do in the study, but none of them gains; those that lose much still lose. The nested choice
among all of them is tested in every such study, for everybody and for the weaker half. A test at 0.05 should find 0.05.

    python benchmarks/false_gains.py --recording emg_myo --base euclidean-wide     # 250 studies, a minute
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from studies.censoring.gain import nested_gain
from studies.censoring.tables import read_gains

#: Mean gains below this stay what they are: nobody would choose such a setting.
LOSS = -0.02


def make_null(gains, rng):
    """Make a study without a gain."""
    n_people, n_seeds = gains.shape[1:]
    by_seed = gains.mean(axis=1, keepdims=True)
    mean = by_seed.mean(axis=2, keepdims=True)
    people, seeds = (rng.normal(size=(n, n)) / np.sqrt(n - 1) for n in (n_people, n_seeds))
    return np.where(mean < LOSS, mean, 0.0) + people @ (gains - by_seed) + (by_seed - mean) @ seeds


def main(argv=None):
    """Print how often a gain is found, at 0.05 and at 0.05 over eight, which is Holm's first step of eight tests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--scores", type=Path, default=Path("docs/results/censoring/scores.csv.gz"), help="scores of a study")
    add("--recording", default="emg_myo", help="recording")
    add("--base", default="euclidean-wide", help="uncensored recipe")
    add("--studies", type=int, default=250, help="number of studies")
    args = parser.parse_args(argv)
    scores = pd.read_csv(args.scores)
    scores = scores[(scores["recording"] == args.recording) & (scores["base"] == args.base)]
    if scores.empty:
        parser.error(f"{args.scores} has no scores of {args.recording} on {args.base}.")
    (found,) = read_gains(scores).values()
    gains, rng = np.concatenate(list(found.gains.values())), np.random.default_rng(0)
    p = pd.DataFrame(
        nested_gain(make_null(gains, rng), found.groups, none=True, n_draws=1000)["p"]
        for _ in range(args.studies)
    )
    rates = pd.DataFrame({f"at {level:.4g}": (p < level).mean() for level in (0.05, 0.05 / 8)})
    print(f"{args.recording} on {args.base}, {args.studies} studies without a gain; found:\n{rates.round(3)}")


if __name__ == "__main__":
    main()
