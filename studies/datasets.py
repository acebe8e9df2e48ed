"""Memory and time of loading 16 subjects of ErrP at the release's size, in one pass.

Writes two CSV files as the release's (131 000 rows) and links them as all 80 sessions, because what
counts here are rows and trials, not their content. Prints the peak memory of ``paradigm.get_data`` relative
to the array it returns, and fails when it exceeds the limit.

    python benchmarks/datasets.py [--quick] [--json]
    python benchmarks/datasets.py --presets    # the table of simulated subjects in docs/datasets.md
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from braindecode_censor.datasets import ErrorPotentials, ErrP, SimulatedSubjects
from braindecode_censor.datasets.errp import FEEDBACKS, TRAIN
from braindecode_censor.datasets.errp_csv import COLUMNS
from braindecode_censor.datasets.simulated import linear_features
from braindecode_censor.datasets.simulated_design import PRESETS
from studies import linear_reference as linear

LIMIT = 2.5


def write_session(path, n_feedbacks, n_rows):
    """Write one session of random microvolts; return the labels."""
    rng = np.random.default_rng(n_feedbacks)
    rows = [",".join(f"{v:.9g}" for v in row) for row in np.round(rng.normal(0, 30, (997, 57)), 6)]
    flags = np.zeros(n_rows, int)
    flags[np.linspace(100, n_rows - 400, n_feedbacks).astype(int)] = 1
    with open(path, "w") as stream:
        stream.write(",".join(COLUMNS) + "\n")
        stream.writelines(f"{k / 200:.9g},{rows[k % 997]},{flag}\n" for k, flag in enumerate(flags))


def write_release(folder, n_rows):
    """Write the 80 sessions and their labels, as links to two files."""
    for count in sorted(set(FEEDBACKS)):
        write_session(folder / f"template{count}", count, n_rows)
    lines = ["IdFeedBack,Prediction"]
    for subject in TRAIN:
        for session, count in enumerate(FEEDBACKS, 1):
            os.link(folder / f"template{count}", folder / f"Data_S{subject:02d}_Sess{session:02d}.csv")
            names = (f"S{subject:02d}_Sess{session:02d}_FB{k:03d}" for k in range(1, count + 1))
            lines += [f"{name},{k % 3 > 0:d}" for k, name in enumerate(names)]
    (folder / "TrainLabels.csv").write_text("\n".join(lines) + "\n")


class PeakMemory:
    """Measure how far the resident memory of this process rises while a block runs."""

    def __enter__(self):
        self.start = self.peak = self._now()
        self._running = True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._running = False
        self._thread.join()
        self.rise = self.peak - self.start

    def _watch(self):
        while self._running:
            self.peak = max(self.peak, self._now())
            time.sleep(0.005)

    @staticmethod
    def _now():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def print_presets(n_seeds=3):
    """Print what a linear model and the Bayes-optimal decoders reach on each preset, as a table."""
    print(
        "| kind | preset | snr | shift | within | LOSO | LOSO, invariant | LOSO, shift 0 | oracle | unseen |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind, presets in PRESETS.items():
        for preset, values in presets.items():
            rows = [_preset_row(kind, preset, seed) for seed in range(n_seeds)]
            cells = [f"{v:.2f}" if v == v else "" for v in np.mean(rows, axis=0)]
            print(
                "|",
                " | ".join([kind, preset, str(values["snr"]), str(values["shift"]), *cells]),
                "|",
                flush=True,
            )


def _preset_row(kind, preset, seed):
    dataset = SimulatedSubjects(kind=kind, preset=preset, seed=seed)
    X, y, s = dataset.arrays()
    F = linear_features(X, kind)
    X0, y0, s0 = SimulatedSubjects(kind=kind, preset=preset, seed=seed, shift=0.0).arrays()
    return [
        linear.within(F, y, s),
        linear.across(F, y, s),
        linear.across_invariant(F, y, s) if kind == "erp" else np.nan,
        linear.across(linear_features(X0, kind), y0, s0),
        dataset.oracle_accuracy(),
        dataset.oracle_accuracy(subject_known=False, n_draws=50),
    ]


def main():
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short recordings, same number of trials")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--presets", action="store_true", help="print the table of simulated presets instead")
    args = parser.parse_args()
    if args.presets:
        print_presets()
        return 0
    with tempfile.TemporaryDirectory() as folder:
        write_release(Path(folder), 14_000 if args.quick else 131_000)
        start = time.perf_counter()
        with PeakMemory() as memory:
            X, y, _ = ErrorPotentials().get_data(ErrP(folder))
        seconds = time.perf_counter() - start
    assert X.shape == (5440, 56, 260) and len(y) == 5440
    ratio = memory.rise / X.nbytes
    result = dict(shape=X.shape, array_mb=X.nbytes // 2**20, peak_mb=memory.rise // 2**20)
    result |= dict(ratio=round(ratio, 2), limit=LIMIT, seconds=round(seconds, 1))
    text = "{shape}: array {array_mb} MB, peak {peak_mb} MB, ratio {ratio} (limit {limit}), {seconds} s"
    print(json.dumps(result) if args.json else text.format(**result))
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
