"""Draw the averages of two simulated subjects, without and with the subject shift.

    python paper_figures/plot_simulated.py [--out results/simulated.png]

Rows: shift 0 and shift 1. Columns: two electrodes for each of two subjects. Without the shift the two subjects
have the same responses; with it the late response (Pz, 0.38 s) stays and the early one (P4, 0.2 s) changes sides.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.datasets._head import EEG_NAMES

CHANNELS, COLOURS = ("Pz", "P4"), {"NonTarget": "tab:grey", "Target": "tab:red"}


def averages(dataset, subject):
    """Return the mean and the standard error of each class, each of shape (2, n_chans, n_times)."""
    X, y = dataset.trials(subject)[0]
    classes = [X[y == c] for c in (0, 1)]
    errors = [trials.std(0) / np.sqrt(len(trials)) for trials in classes]
    return np.array([trials.mean(0) for trials in classes]), np.array(errors)


def draw(subjects=(1, 3), n_trials=200, seed=0):
    """Return the figure."""
    figure, axes = plt.subplots(2, 4, figsize=(11, 4.6), sharex=True, sharey=True, layout="constrained")
    for row, shift in zip(axes, (0.0, 1.0)):
        dataset = SimulatedSubjects(max(subjects), n_trials, shift=shift, seed=seed)
        times = np.arange(dataset.design.n_times) / dataset.design.sfreq
        for k, (subject, channel) in enumerate((s, c) for s in subjects for c in CHANNELS):
            mean, error = averages(dataset, subject)
            for name, m, e in zip(dataset.class_names, mean, error):
                m, e = m[EEG_NAMES.index(channel)], e[EEG_NAMES.index(channel)]
                row[k].plot(times, m, color=COLOURS[name], label=name)
                row[k].fill_between(times, m - 2 * e, m + 2 * e, color=COLOURS[name], alpha=0.2, linewidth=0)
            row[k].axhline(0, color="k", linewidth=0.5)
            row[k].set_title(f"shift {shift:g}, subject {subject}, {channel}", fontsize=9)
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.supxlabel("time after the stimulus (s)")
    figure.supylabel("microvolts (mean, two standard errors)")
    return figure


def main():
    """Write the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/simulated.png"))
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    draw().savefig(args.out, dpi=150)
    print(args.out)


if __name__ == "__main__":
    main()
