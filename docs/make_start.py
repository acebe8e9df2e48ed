"""Draw the picture of README and the start page from the stored scores of docs/results/transfer; nothing is trained.

python docs/make_start.py
"""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

HERE = Path(__file__).parent
DATASETS = {"erp_uci_smni": ("ERP", 3), "ssvep_exo": ("SSVEP", 4), "emg_myo": ("EMG", 7)}
GREY, ORANGE = "#7f7f7f", "#D55E00"
ARROW = {"arrowstyle": "-|>", "color": "#444444", "lw": 1.2}


def draw_workflow(axes):
    """Draw the steps from recordings of several subjects to labels of a new one."""
    axes.set(xlim=(-0.6, 10.2), ylim=(0, 10))
    axes.axis("off")
    steps = {
        "recordings of\nseveral subjects": (2.2, 8.2, "white"),
        "many candidates, each\nscored on held-out subjects": (2.2, 4.9, "white"),
        "ensemble,\nexpected score": (2.2, 1.6, "#fde3d3"),
        "unlabelled trials\nof a new subject": (7.9, 8.2, "white"),
        "decoder of\nthis subject": (7.9, 4.9, "#fde3d3"),
        "labels": (7.9, 1.6, "white"),
    }
    for text, (x, y, colour) in steps.items():
        box = {"boxstyle": "round,pad=0.5", "fc": colour, "ec": "#444444"}
        axes.text(x, y, text, ha="center", va="center", bbox=box, fontsize=10)
    for start, end in [(7.2, 6.0), (3.9, 2.7)]:
        axes.annotate("", (2.2, end), (2.2, start), arrowprops=ARROW)
        axes.annotate("", (7.9, end), (7.9, start), arrowprops=ARROW)
    axes.annotate("", (6.5, 4.6), (3.9, 1.9), arrowprops=ARROW)
    for text, x, y in [("fit", 2.4, 6.6), ("adapt", 8.1, 6.6), ("predict", 8.1, 3.3)]:
        axes.text(x, y, text, va="center", family="monospace", fontsize=10)


def draw_subjects(axes, scores, title, n_classes):
    """Draw one line per subject from the paper's protocol to the ensemble."""
    axes.plot([0, 1], scores.T, "-", color="#bbbbbb", lw=0.8, zorder=1)
    for x, (name, colour) in enumerate({"paper": GREY, "ensemble": ORANGE}.items()):
        axes.scatter([x] * len(scores), scores[name], s=16, color=colour, zorder=2)
        axes.plot([x - 0.18, x + 0.18], [scores[name].mean()] * 2, color=colour, lw=3, zorder=3)
    axes.axhline(1 / n_classes, color="k", ls=":", lw=1)
    axes.set(
        xlim=(-0.4, 1.4), ylim=(0, 1.03), xticks=[0, 1], xticklabels=["paper's\nprotocol", "this\npackage"]
    )
    axes.set_title(f"{title}, {len(scores)} subjects", fontsize=11)


def main():
    """Draw and save."""
    scores = pd.read_csv(HERE / "results" / "transfer" / "scores.csv.gz")
    rows = {"paper": "none", "ensemble": "unlabeled"}
    scores = scores[(scores["target"] == scores["decoder"].map(rows)) & (scores["seed"] >= 0)]
    figure, (left, *panels) = plt.subplots(
        1, 4, figsize=(11, 3.3), layout="constrained", width_ratios=[2.1, 1, 1, 1]
    )
    draw_workflow(left)
    for axes, (name, (title, n_classes)) in zip(panels, DATASETS.items()):
        table = scores[scores["recording"] == name].pivot_table("score", "subject", "decoder")
        draw_subjects(axes, table[["paper", "ensemble"]], title, n_classes)
        print(title, table.mean().round(3).to_dict())
    panels[0].set_ylabel("balanced accuracy")
    figure.savefig(HERE / "_static" / "start.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
