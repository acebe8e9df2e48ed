"""How much has to be known of a new person: unlabelled trials, trials as they come, and labelled ones.

python paper_figures/plot_tiers.py --results docs/results --out docs/_static     # what benchmarks/transfer.py wrote
"""

import argparse
from pathlib import Path

import pandas as pd

from braindecode_censor.figures.style import PAGE, PALETTE, RECORDING_TITLES, legend_above, new_figure, style

__all__ = ["draw_labeled", "draw_unlabeled", "main"]

_SHARES = {"0": "0", "0.05": "5", "0.1": "10", "0.2": "20", "0.5": "50", "all": "all", "stream": "stream"}
_AMOUNTS = ("0", "1", "2", "5", "10")
_LOOKS = {"subject": (PALETTE[0], "o"), "euclidean": (PALETTE[5], "s")}
_CLASSES = {
    "labeled": ("classes known", "-"),
    "labeled, classes hidden": ("the same trials, unlabelled", ":"),
}


# Figure -> what to see in it.
_CAPTIONS = {
    "curve_unlabeled": """
Balanced accuracy by the share of a person's trials that `adapt` was given without classes, mean and standard error over
people. The scored trials are the same half for all points of a curve and are not among those given; for *all* they are,
still without classes. Right of the line, the same trials decoded by `stream()`, one after the other, after the other
half. See from where on a curve is flat: more trials gain nothing there; whether it rises at once, or first falls as
a few trials say little; and how far the stream is from *all*.
""",
    "curve_labeled": """
Balanced accuracy by the number of trials of each class that `adapt` was given, with their classes (solid) and without
(dotted), mean and standard error over people. The scored trials are the same for all points of a curve and never among
those given. See the distance between solid and dotted: it is what labels are worth beyond the trials themselves. A
person of EMG has four trials of each class, so its curve ends at two.
""",
}


def _panels(curves, kinds):
    """Yield an axis for every recording with its part of the curves, and at the end the figure."""
    curves = curves[curves["curve"].isin(kinds)]
    recordings = list(dict.fromkeys(curves["recording"]))
    figure, axes = new_figure(PAGE, 2.5, 1, len(recordings), squeeze=False)
    for axis, recording in zip(axes[0], recordings):
        axis.set_title(RECORDING_TITLES.get(recording, recording))
    axes[0][0].set_ylabel("balanced accuracy")
    parts = [curves[curves["recording"] == recording] for recording in recordings]
    return figure, list(zip(axes[0], parts))


def _draw(axis, part, places, label, line, look):
    """Draw one curve with its standard errors at the places of its amounts."""
    part = part.set_index(part["amount"].astype(str)).reindex(places).dropna(subset=["mean"])
    x = [places.index(amount) for amount in part.index]
    colour, marker = look
    axis.errorbar(x, part["mean"], part["error"], color=colour, marker=marker, linestyle=line, label=label)


def draw_unlabeled(curves):
    """Draw the score by the share of a person's trials that is given without classes."""
    figure, panels = _panels(curves, ["unlabeled"])
    places = list(_SHARES)
    for axis, part in panels:
        for step, mine in part.groupby("step", sort=False):
            name = step.split()[0]
            _draw(axis, mine[mine["amount"] != "stream"], places, name, "-", _LOOKS[name])
            _draw(axis, mine[mine["amount"] == "stream"], places, None, "none", _LOOKS[name])
        axis.set_xticks(range(len(places)), list(_SHARES.values()))
        axis.axvline(len(places) - 1.5, color="#BBBBBB", linewidth=0.6)
        axis.set_xlabel("unlabelled trials, %")
    legend_above(figure, *_handles(panels))
    return figure


def draw_labeled(curves):
    """Draw the score by the number of trials of each class that are given with their class."""
    figure, panels = _panels(curves, list(_CLASSES))
    for axis, part in panels:
        for step, mine in part.groupby("step", sort=False):
            name = step.split()[0]
            for curve, (label, line) in _CLASSES.items():
                here = mine[mine["curve"] == curve]
                _draw(axis, here, list(_AMOUNTS), f"{name}, {label}", line, _LOOKS[name])
        axis.set_xticks(range(len(_AMOUNTS)), _AMOUNTS)
        axis.set_xlabel("trials of each class")
    legend_above(figure, *_handles(panels), columns=2)
    return figure


def _handles(panels):
    handles, labels = panels[0][0].get_legend_handles_labels()
    return handles, labels


def main(argv=None):
    """Draw both figures, and write what a page of the documentation includes beside the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="folder with transfer_curves.csv")
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures")
    args = parser.parse_args(argv)
    curves = pd.read_csv(args.results / "transfer_curves.csv", dtype={"amount": str})
    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        for name, draw in {"curve_unlabeled": draw_unlabeled, "curve_labeled": draw_labeled}.items():
            draw(curves).savefig(args.out / f"{name}.png")
    texts = [f"![]({args.out.name}/{name}.png)\n{caption}" for name, caption in _CAPTIONS.items()]
    (args.results / "transfer_curves.md").write_text("\n".join(texts))


if __name__ == "__main__":
    main()
