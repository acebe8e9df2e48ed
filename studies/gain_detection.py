"""Does the tool see a gain where there is one, and none where there is none? Two populations with a known answer.

People of the first population differ by gain and mixing of their channels, which alignment undoes; people of the second
are alike, so that nothing is to be gained. The search has a plain decoder and the same one with everybody seen from the
own centre, and says whether the gain of its choice over the plain one is more than noise. Scores are nested.

    python benchmarks/gain_detection.py     # ten seeds of each population, half a minute on a CPU
"""

import argparse
import warnings

import pandas as pd

from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.decoder.classifier import AutoTransferClassifier

#: Population -> options.
POPULATIONS = {"people differ": {"preset": "medium"}, "people alike": {"preset": "alike"}}
#: The plain decoder comes first: gains are measured against it.
CANDIDATES = ["riemann-fixed", "riemann"]


def detect(population, seed, candidates=CANDIDATES, n_people=8, n_trials=24):
    """Let the search say whether there is a gain."""
    people = SimulatedSubjects(n_people, n_trials, kind="mixed", seed=seed, **POPULATIONS[population])
    X, y, subjects = people.arrays()
    search = AutoTransferClassifier(
        "unlabeled", candidates=candidates, time_limit=None, sfreq=64.0, random_state=seed, verbose=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y, subjects=subjects)
    gain = search.heldout_.gain
    noise = any("within noise" in text for text in search.heldout_.warnings)  # what a user is told
    said = "noise" if noise else "gain" if gain["mean"] > 0 else "loss"
    return {"population": population, "seed": seed, "score": search.heldout_.mean, **gain, "said": said}


def main(argv=None):
    """Run all seeds and print how often each was said."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument(
        "--networks", action="store_true", help="two small networks instead of classical ones"
    )
    args = parser.parse_args(argv)
    rows = [detect(name, seed) for name in POPULATIONS for seed in range(args.seeds)]
    table = pd.DataFrame(rows)
    print(table.round(3).to_string(index=False), "\n")
    for name, part in table.groupby("population", sort=False):
        times = (part["said"] == "gain").sum()
        print(f"{name}: a gain was said {times} times of {len(part)}; mean gain {part['mean'].mean():+.3f}")


if __name__ == "__main__":
    main()
