"""What bagging the greedy selection gains for people held out, from held-out probabilities; nothing is trained.

Reads the folders of ``paper_figures/run_transfer.py`` and weighs candidates for every person on the person's partners,
three times: by one greedy selection, by the same in bags (what the package does), and as a plain average of the best
three. Scores are strictly nested, balanced accuracies, means over people and seeds; columns with "all" have the
partners of all seeds for every person.

    python benchmarks/bagging.py --results results/transfer
"""

import argparse
from pathlib import Path

import numpy as np

from braindecode_censor.search.heldout import balanced_accuracy
from braindecode_censor.search.weights import choose_weights, greedy_selection
from braindecode_censor.trials.balance import balanced_weights
from studies.transfer.heldout_file import join_heldout, read_heldout


def select_once(probabilities, y, people):
    """Return the weights of a single greedy selection."""
    return greedy_selection(probabilities[:, np.arange(len(y)), y], balanced_weights(y, people))


RULES = {
    "one selection": select_once,
    "in bags": choose_weights,
    "best three": lambda *given: choose_weights(*given, "top"),
}


def nested_mean(heldout, names, rule):
    """Return the strictly nested score of a rule, as ``HeldOut.nested_scores`` does for the package's own."""
    scores = []
    for person in range(len(heldout.labels)):
        weights = rule(*heldout.for_choice(person, names))
        probabilities, y = heldout.for_test(person, names)
        scores.append(balanced_accuracy(np.tensordot(weights, probabilities, 1), y))
    return float(np.mean(scores))


def main():
    """Print a table per recording."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of run_transfer.py")
    for folder in sorted({path.parent for path in parser.parse_args().results.glob("*/seed_*.npz")}):
        seeds = [read_heldout(path) for path in sorted(folder.glob("seed_*.npz"))]
        names = [name for name in seeds[0][1] if all(name in kinds for _, kinds in seeds)]
        columns = [
            f"{rule}{', all' * together}" for rule in RULES for together in range(1 + (len(seeds) > 1))
        ]
        print(
            f"\n| {folder.name}, {len(names)} candidates | {' | '.join(columns)} |\n|{'---|' * (1 + len(columns))}"
        )
        for tier in seeds[0][0]:
            parts = [heldout[tier] for heldout, _ in seeds]
            row = []
            for rule in RULES.values():
                row.append(np.mean([nested_mean(part, names, rule) for part in parts]))
                if len(parts) > 1:
                    row.append(nested_mean(join_heldout(parts), names, rule))
            print(f"| {tier} | {' | '.join(f'{score:.3f}' for score in row)} |", flush=True)


if __name__ == "__main__":
    main()
