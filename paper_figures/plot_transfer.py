"""What the family gains for the next person: tiers side by side, as a table and a figure, and person by person.

python paper_figures/plot_transfer.py --results DIR     # a folder of run_transfer.py
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd

from braindecode_censor.figures.style import PAGE, PALETTE, new_figure, style
from braindecode_censor.report.tiers import TIERS, as_markdown, tiers_table

__all__ = ["draw_people", "draw_tiers", "main"]

_DECODERS = {
    "paper": "paper's protocol",
    "best one": "best candidate",
    "family, averaged": "family, averaged",
}
_COLOURS = ("#595959", PALETTE[0], PALETTE[5])


def _means(scores):
    return scores.groupby(["recording", "target", "decoder", "person"])["score"].mean()


def draw_tiers(scores):
    """Draw the mean over people of three decoders, by what is known of the person.

    Parameters
    ----------
    scores : DataFrame
        From ``run_transfer.py``.

    Returns
    -------
    figure : matplotlib.figure.Figure
        One panel per recording; bars are standard errors over people.
    """
    found = _means(scores)
    recordings = list(dict.fromkeys(scores["recording"]))
    figure, axes = new_figure(PAGE, 2.4, 1, len(recordings), squeeze=False, sharey=False)
    tiers = [tier for tier in TIERS if tier in set(scores["target"])]
    for axis, recording in zip(axes[0], recordings):
        for (decoder, label), colour in zip(_DECODERS.items(), _COLOURS):
            shown = [(k, found.get((recording, tier, decoder))) for k, tier in enumerate(tiers)]
            shown = [(k, people) for k, people in shown if people is not None]
            if shown:
                x = [k for k, _ in shown]
                mean = [people.mean() for _, people in shown]
                error = [people.std(ddof=1) / np.sqrt(len(people)) for _, people in shown]
                axis.errorbar(x, mean, error, marker="o", color=colour, label=label)
        axis.set_xticks(range(len(tiers)), [TIERS[tier] for tier in tiers], rotation=30, ha="right")
        axis.set_title(recording)
    axes[0][0].set_ylabel("balanced accuracy")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def draw_people(scores, target="unlabeled"):
    """Draw every person's score with the family against the paper's protocol.

    Parameters
    ----------
    scores : DataFrame
        From ``run_transfer.py``.
    target : str
        What the family knows of the person; the protocol knows nothing.

    Returns
    -------
    figure : matplotlib.figure.Figure
        One panel per recording; a point above the line is a person who gains.
    """
    found = _means(scores)
    recordings = list(dict.fromkeys(scores["recording"]))
    figure, axes = new_figure(PAGE, 2.6, 1, len(recordings), squeeze=False)
    for axis, recording in zip(axes[0], recordings):
        plain, family = (
            found.get((recording, "none", "paper")),
            found.get((recording, target, "family, averaged")),
        )
        if plain is None or family is None:
            axis.set_axis_off()
            continue
        low = min(plain.min(), family.min()) - 0.02
        axis.plot([low, 1], [low, 1], color="#BBBBBB", zorder=0)
        axis.scatter(plain, family.reindex(plain.index), color=_COLOURS[-1], s=14)
        axis.set_title(recording)
        axis.set_xlabel("paper's protocol")
    axes[0][0].set_ylabel("family, averaged")
    return figure


def main(argv=None):
    """Draw both figures as PDF and PNG beside the scores, and write the table of tiers.

    Parameters
    ----------
    argv : list of str or None
        Arguments; those of the process when omitted.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of run_transfer.py")
    args = parser.parse_args(argv)
    scores = pd.read_csv(args.results / "scores.csv")
    notes = [
        {"recording": path.parent.name, **json.loads(path.read_text())}
        for path in sorted(args.results.glob("*/seed_*.json"))
    ]
    table = tiers_table(scores, pd.DataFrame(notes) if notes else None)
    table.to_csv(args.results / "tiers.csv", index=False, float_format="%.4g")
    (args.results / "tiers.md").write_text(as_markdown(table))
    print(as_markdown(table))
    with style():
        for name, draw in {"transfer_tiers": draw_tiers, "transfer_people": draw_people}.items():
            figure = draw(scores)
            for ending in ("pdf", "png"):
                figure.savefig(args.results / f"{name}.{ending}")


if __name__ == "__main__":
    main()
