"""Mean ranks over subjects with the critical difference, and every pair of decoders compared.

python paper_figures/plot_ranks.py --results DIR
"""

from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, rankdata, studentized_range
from statsmodels.stats.multitest import multipletests

from braindecode_censor.figures.folder import SELECTED, Missing
from braindecode_censor.figures.product import Plot, run_script
from braindecode_censor.figures.style import COLUMN, colour_of, label_of, new_figure
from braindecode_censor.paper.statistics import compare

LEVEL = 0.05


def compared(results):
    """Return the scores of decoders that are compared with each other."""
    scores = results.by_subject.drop(columns=SELECTED, errors="ignore").dropna().sort_index()
    if len(scores) < 2 or scores.shape[1] < 2:
        raise Missing(
            f"a paired test needs two decoders on two subjects or more; there are {scores.shape[1]} decoders with "
            f"scores of the same {len(scores)} subjects"
        )
    return scores


def numbers(results):
    """Return the mean rank of every decoder."""
    scores = compared(results)
    count, decoders = scores.shape
    ranks = np.apply_along_axis(rankdata, 1, -scores.to_numpy())
    p = friedmanchisquare(*scores.to_numpy().T).pvalue if decoders > 2 else np.nan
    q = studentized_range.ppf(1 - LEVEL, decoders, np.inf) / np.sqrt(2)
    frame = pd.DataFrame({"decoder": scores.columns, "rank": ranks.mean(axis=0)})
    frame["critical_difference"] = q * np.sqrt(decoders * (decoders + 1) / (6 * count))
    frame["friedman_p"], frame["subjects"] = p, count
    selected = results.decoders.get(SELECTED)
    frame["selected"] = [results.decoders[decoder] == selected for decoder in frame["decoder"]]
    return frame.sort_values("rank", kind="stable", ignore_index=True)


def pairs(results):
    """Return the paired test of every two decoders; a gain is the decoder minus the reference."""
    scores = compared(results)
    rows = []
    for reference, decoder in combinations(scores.columns, 2):
        test = compare(scores[decoder], scores[reference])
        rows.append((decoder, reference, *(test[key] for key in ("gain", "low", "high", "p"))))
    frame = pd.DataFrame(rows, columns=["decoder", "reference", "gain", "low", "high", "p"])
    frame["p_holm"] = multipletests(frame["p"], method="holm")[1]
    return frame


def draw(frame):
    """Draw the diagram: ranks on a line, bars over decoders that do not differ."""
    count = len(frame)
    half = (count + 1) // 2
    bars = _groups(frame)
    figure, axis = new_figure(COLUMN, 0.85 + 0.17 * half + 0.1 * len(bars))
    axis.set_axis_off()
    unit = 1.0  # one line of text
    top = -0.6 - 0.5 * len(bars)
    margin = 0.75 + 0.07 * count
    axis.set_xlim(1 - margin, count + margin)
    axis.set_ylim(top - unit * half, 3.4)
    axis.plot([1, count], [0, 0], color="black", linewidth=0.8)
    for rank in range(1, count + 1):
        axis.plot([rank, rank], [0, 0.25], color="black", linewidth=0.8)
        axis.text(rank, 0.4, str(rank), ha="center", va="bottom")
    difference = frame["critical_difference"].iloc[0]
    width = min(difference, count - 1)
    axis.plot([1, 1 + width], [2.0, 2.0], color="black", linewidth=1.2)
    more = "" if width == difference else ", wider than the scale"
    p = frame["friedman_p"].iloc[0]
    test = "" if np.isnan(p) else f"; Friedman p = {p:.3f}"
    axis.text(1, 2.2, f"critical difference {difference:.2f}{more}{test}", ha="left", va="bottom")
    for level, (low, high) in enumerate(bars):
        axis.plot([low - 0.05, high + 0.05], [-0.5 * (level + 1)] * 2, color="black", linewidth=2.5)
    for number, row in enumerate(frame.itertuples()):
        side = -1 if number < half else 1
        line = top - unit * (number if side < 0 else count - 1 - number)
        edge = 1 - 0.15 if side < 0 else count + 0.15
        axis.plot([row.rank, row.rank, edge], [0, line, line], color=colour_of(row.decoder), linewidth=0.8)
        name = f"{label_of(row.decoder)}{' *' if row.selected else ''}"
        axis.text(edge + 0.08 * side, line, name, ha="right" if side < 0 else "left", va="center")
    return figure


def _groups(frame):
    """Return the longest runs of ranks that lie within the critical difference."""
    ranks, difference = frame["rank"].to_numpy(), frame["critical_difference"].iloc[0]
    runs = []
    for low in range(len(ranks)):
        high = int(np.flatnonzero(ranks <= ranks[low] + difference).max())
        if high > low and (not runs or high > runs[-1][1]):
            runs.append((low, high))
    return [(ranks[low], ranks[high]) for low, high in runs]


PLOT = Plot(
    "ranks",
    "Mean ranks",
    "Mean rank of every decoder over subjects (1 is best; * is selected). A bar joins decoders whose ranks differ "
    "by less than Nemenyi's critical difference at the 5 % level.",
    numbers,
    draw,
)

if __name__ == "__main__":
    run_script(__doc__, PLOT)
