"""Draw the picture of the README: the losses, and their effect on subject leakage and accuracy.

The right panels are trainings on simulated subjects, one thin line per seed.

    python docs/make_overview.py         # a few minutes
"""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.datasets import SimulatedSubjects

PATH = Path(__file__).parent / "_static" / "overview.png"
EFFECTS = {"power": 1.0, "orientation": 20.0, "rotation": 2.0, "latency": 0.005, "offset": 6.0}
WEIGHTS = [0.0, 1.0, 3.0, 10.0, 30.0, 100.0]  # the paper's for MMD, and none
SEEDS = [31, 32, 33, 34]
NEW_SUBJECTS = (7, 8)
BOX = {"boxstyle": "round,pad=0.5", "fc": "white", "ec": "#444444"}


def train(weight, seed):
    """Return the accuracy of a fresh probe of the subject, and that of the task on two new subjects."""
    data = SimulatedSubjects(8, 140, preset="easy", shift=1.0, n_chans=8, effects=EFFECTS, seed=seed)
    X, y, subjects = data.arrays()
    position = np.concatenate([np.arange((subjects == s).sum()) for s in np.unique(subjects)])
    is_new = np.isin(subjects, NEW_SUBJECTS)
    fit, probe = ~is_new & (position < 80), ~is_new & (position >= 80)
    options = {"max_epochs": 25, "lr": 1e-2, "batch_size": 32, "random_state": seed}
    clf = CensoredEEGClassifier(penalty="mmd", censoring="conditional", weight=weight, **options)
    clf.fit(X[fit], y[fit], subjects=subjects[fit])
    report = clf.subject_leakage(X[probe], y[probe], subjects[probe])
    within = report[report["view"] == "within class"]
    return within["accuracy"].mean(), balanced_accuracy_score(y[is_new], clf.predict(X[is_new]))


def draw_schematic(axes):
    """Draw encoder, latent code, classifier and penalty."""
    axes.set(xlim=(0, 10), ylim=(0, 6))
    axes.axis("off")
    boxes = {
        "trial\nx": (0.7, 4.4),
        "encoder\n(EEGNet)": (3.1, 4.4),
        "latent\ncode z": (5.4, 4.4),
        "classifier": (7.8, 4.4),
        "penalty\n(+ critic)": (5.4, 1.5),
    }
    for text, (x, y) in boxes.items():
        axes.text(x, y, text, ha="center", va="center", bbox=BOX, fontsize=10)
    for start, end in [((1.25, 4.4), (2.05, 4.4)), ((4.15, 4.4), (4.65, 4.4)), ((6.15, 4.4), (6.75, 4.4))]:
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "#444444"})
    axes.annotate("", (5.4, 2.25), (5.4, 3.9), arrowprops={"arrowstyle": "->", "color": "#444444"})
    axes.annotate("", (4.35, 1.5), (2.4, 1.5), arrowprops={"arrowstyle": "->", "color": "#444444"})
    axes.text(1.3, 1.5, "subject s,\nclass y", ha="center", va="center", fontsize=10)
    axes.text(9.1, 4.4, "task\nloss", ha="left", va="center", fontsize=10)
    axes.text(6.7, 1.5, "+ λ · (dependence of\n      z on s)", ha="left", va="center", fontsize=10)
    axes.annotate("", (9.05, 4.4), (8.7, 4.4), arrowprops={"arrowstyle": "->", "color": "#444444"})
    axes.set_title("censoring adds a penalty to the task loss", fontsize=11)


def main():
    """Train and draw."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    figure, (schematic, left, right) = plt.subplots(
        1, 3, figsize=(11, 3.2), layout="constrained", width_ratios=[1.35, 1, 1]
    )
    draw_schematic(schematic)
    scores = np.array([[train(weight, seed) for weight in WEIGHTS] for seed in SEEDS])
    panels = {
        left: ("subject leakage (fresh probes)", 1 / 6, "#D55E00"),
        right: ("task, on new subjects", 1 / 2, "#0072B2"),
    }
    for k, (panel, (title, chance, colour)) in enumerate(panels.items()):
        panel.plot(scores[..., k].T, "-", color=colour, alpha=0.3, lw=1)
        panel.plot(scores[..., k].mean(0), "o-", color=colour, lw=2)
        panel.axhline(chance, color="k", ls=":", lw=1)
        panel.text(len(WEIGHTS) - 1, chance + 0.02, "chance", ha="right", fontsize=8)
        panel.set(xticks=range(len(WEIGHTS)), xticklabels=[f"{w:g}" for w in WEIGHTS], ylim=(0, 1))
        panel.set(xlabel="λ (MMD, conditional)", ylabel="balanced accuracy")
        panel.set_title(title, fontsize=11)
        print(title, dict(zip(WEIGHTS, scores[..., k].mean(0).round(3).tolist())))
    figure.savefig(PATH, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
