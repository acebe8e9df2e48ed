"""Difficulty of the presets of simulated subjects: a linear decoder and the Bayes-optimal one, mean of three seeds.

python -m studies.datasets
"""

import argparse

import numpy as np

from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.datasets.simulated import linear_features
from braindecode_censor.datasets.simulated_design import PRESETS
from studies import linear_reference as linear

_COLUMNS = (
    "kind",
    "preset",
    "snr",
    "shift",
    "within",
    "LOSO",
    "LOSO, invariant",
    "LOSO, shift 0",
    "oracle",
    "unseen",
)


def score_preset(kind, preset, seed, **size):
    """Return the accuracies of one seed; NaN where a column does not apply."""
    dataset = SimulatedSubjects(kind=kind, preset=preset, seed=seed, **size)
    X, y, subjects = dataset.arrays()
    features = linear_features(X, kind)
    X0, y0, subjects0 = SimulatedSubjects(kind=kind, preset=preset, seed=seed, shift=0.0, **size).arrays()
    return [
        linear.within(features, y, subjects),
        linear.across(features, y, subjects),
        linear.across_invariant(features, y, subjects) if kind == "erp" else np.nan,
        linear.across(linear_features(X0, kind), y0, subjects0),
        dataset.oracle_accuracy(),
        dataset.oracle_accuracy(subject_known=False, n_draws=50),
    ]


def main(argv=None):
    """Print a row per preset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    args = parser.parse_args(argv)
    print(f"| {' | '.join(_COLUMNS)} |\n{'|---' * len(_COLUMNS)}|")
    for kind, presets in PRESETS.items():
        for preset, values in presets.items():
            rows = [score_preset(kind, preset, seed) for seed in range(args.seeds)]
            cells = ["" if np.isnan(mean) else f"{mean:.2f}" for mean in np.mean(rows, axis=0)]
            print(
                "|",
                " | ".join([kind, preset, str(values["snr"]), str(values["shift"]), *cells]),
                "|",
                flush=True,
            )


if __name__ == "__main__":
    main()
