"""The interval that ``heldout_`` gives for the next person, and how many fresh people really lie in it.

In every simulated population a classifier is fitted on a few people with classical candidates, which take seconds,
and decodes people of the same population whom nobody has seen. The interval is meant to hold 90 % of them.

    python benchmarks/coverage.py                       # 20 populations, a few minutes on one core
    python benchmarks/coverage.py --populations 4 --people 8 --fresh 10
"""

import argparse
import time
import warnings

import numpy as np

from braindecode_censor import AutoTransferClassifier
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.search.heldout import balanced_accuracy

CANDIDATES = ["riemann", "riemann-fixed", "xdawn", "waveform", "power"]


def measure(seed, people, fresh, trials, target):
    """Fit on one population and test on people who are new to it."""
    population = SimulatedSubjects(
        people + fresh, trials, kind="erp" if seed % 2 else "emg", seed=seed, sfreq=128.0
    )
    X, y, subjects = population.arrays()
    seen = subjects <= people
    clf = AutoTransferClassifier(target, None, "cpu", seed, CANDIDATES, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X[seen], y[seen], subjects=subjects[seen])
        scores = []
        for person in np.unique(subjects[~seen]):
            mine = X[subjects == person]
            decoder = clf if target == "none" else clf.adapt(mine)
            codes = np.searchsorted(clf.classes_, y[subjects == person])
            scores.append(balanced_accuracy(decoder.predict_proba(mine), codes))
    return clf.heldout_, np.array(scores)


def main():
    """Print the coverage of every population and of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--populations", type=int, default=20)
    parser.add_argument("--people", type=int, default=12, help="people to fit on")
    parser.add_argument("--fresh", type=int, default=20, help="fresh people of each population")
    parser.add_argument("--trials", type=int, default=60, help="trials of a person")
    parser.add_argument("--target", choices=["none", "unlabeled"], default="unlabeled")
    args = parser.parse_args()
    inside, bias, started = [], [], time.perf_counter()
    for seed in range(args.populations):
        expected, scores = measure(seed, args.people, args.fresh, args.trials, args.target)
        inside.append((expected.low <= scores) & (scores <= expected.high))
        bias.append(scores.mean() - expected.mean)
        print(
            f"population {seed:2d}: expected {expected.mean:.3f} ({expected.low:.3f} to {expected.high:.3f}), "
            f"came {scores.mean():.3f}, {inside[-1].mean():.0%} inside",
            flush=True,
        )
    covered = np.concatenate(inside).mean()
    print(
        f"\n{covered:.1%} of {np.size(inside)} fresh people lie in their 90 % interval (80 to 97 % would do); "
        f"they score {np.mean(bias):+.3f} more than expected in the mean. {time.perf_counter() - started:.0f} s"
    )
    return 0 if 0.8 <= covered <= 0.97 else 1


if __name__ == "__main__":
    raise SystemExit(main())
