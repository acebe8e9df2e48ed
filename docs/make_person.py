"""Draw the scores of subjects kept apart, untaught and taught, from rows that ``python -m studies.person`` has written.

python docs/make_person.py OUT
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

HERE = Path(__file__).parent
DATASETS = {"erp_uci_smni": ("ERP", 3), "ssvep_exo": ("SSVEP", 4), "emg_myo": ("EMG", 7)}
COLOURS = {"untaught": "#7f7f7f", "taught": "#D55E00"}


def main():
    """Draw and save."""
    rows = pd.concat(map(pd.read_csv, sorted(Path(sys.argv[1]).glob("*.csv"))))
    rows = rows[rows["tier"] == "unlabelled"].groupby(["recording", "subject"])[list(COLOURS)].mean()
    names = [name for name in DATASETS if name in rows.index]
    figure, panels = plt.subplots(
        1, len(names), figsize=(2.6 * len(names), 3), layout="constrained", squeeze=False
    )
    for axes, name in zip(panels[0], names):
        scores, (title, n_classes) = rows.loc[name], DATASETS[name]
        axes.plot([0, 1], scores.T, "-", color="#bbbbbb", lw=0.8, zorder=1)
        for x, (column, colour) in enumerate(COLOURS.items()):
            axes.scatter([x] * len(scores), scores[column], s=16, color=colour, zorder=2)
            axes.plot([x - 0.18, x + 0.18], [scores[column].mean()] * 2, color=colour, lw=3, zorder=3)
        axes.axhline(1 / n_classes, color="k", ls=":", lw=1)
        axes.set(xlim=(-0.4, 1.4), ylim=(0, 1.03), xticks=[0, 1], xticklabels=list(COLOURS))
        axes.set_title(f"{title}, {len(scores)} subjects", fontsize=11)
    panels[0, 0].set_ylabel("balanced accuracy")
    figure.savefig(HERE / "_static" / "person.png", dpi=150)


if __name__ == "__main__":
    main()
