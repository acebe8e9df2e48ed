"""The gain of the selected decoder for every subject, and of every decoder on average, with intervals.

python paper_figures/plot_gains.py --results DIR
"""

import numpy as np
import pandas as pd
from scipy.stats import t

from braindecode_censor.figures.folder import BASELINE, SELECTED, Missing
from braindecode_censor.figures.product import Plot, run_script
from braindecode_censor.figures.style import PAGE, colour_of, label_of, marker_of, new_figure, tick_subjects
from braindecode_censor.paper.selection import scores_of_choice
from braindecode_censor.paper.statistics import compare


def numbers(results):
    """Return the gains over the baseline."""
    scores = results.by_subject
    if BASELINE not in scores or SELECTED not in scores:
        raise Missing("gains need scores of the baseline and of the selected decoder")
    rows = _by_subject(results, scores)
    for decoder in scores.columns.drop(BASELINE):
        both = scores[[decoder, BASELINE]].dropna().sort_index()  # the order of the table: the same draws
        found = compare(both[decoder], both[BASELINE])
        rows.append((decoder, "all", found["gain"], found["low"], found["high"], "subjects"))
    return pd.DataFrame(rows, columns=["decoder", "subject", "gain", "low", "high", "over"])


def _by_subject(results, scores):
    gains = (scores[SELECTED] - scores[BASELINE]).dropna()
    try:
        found = results.probed("gains").set_index("subject")
        return [
            (SELECTED, s, gains[s], found["low"].get(s), found["high"].get(s), "trials") for s in gains.index
        ]
    except Missing:
        pass
    pairs = [scores_of_choice(results.scores, results.decoders[d]) for d in (SELECTED, BASELINE)]
    over_seeds = (pairs[0] - pairs[1]).loc[gains.index]
    count = over_seeds.shape[1]
    half = pd.Series(np.nan, gains.index)
    if count > 1:
        half = t.ppf(0.975, count - 1) * over_seeds.std(axis=1, ddof=1) / np.sqrt(count)
    over = "seeds" if count > 1 else "nothing"
    return [(SELECTED, s, gains[s], gains[s] - half[s], gains[s] + half[s], over) for s in gains.index]


def draw(frame):
    """Draw the two panels."""
    figure, (left, right) = new_figure(PAGE, 2.3, 1, 2, sharey=True, gridspec_kw={"width_ratios": [3, 2]})
    mine, means = frame[frame["over"] != "subjects"], frame[frame["over"] == "subjects"]
    over = mine["over"].iloc[0]
    _draw_intervals(left, mine, [SELECTED] * len(mine))
    tick_subjects(left, mine["subject"])
    left.set_xlabel("test subject, sorted by the baseline")
    left.set_ylabel("gain over the baseline")
    left.set_title(f"{label_of(SELECTED)}, {'no interval' if over == 'nothing' else f'95 % over {over}'}")
    _draw_intervals(right, means, means["decoder"])
    labels = [label_of(decoder) for decoder in means["decoder"]]
    right.set_xticks(range(len(means)), labels, rotation=30, ha="right", rotation_mode="anchor")
    right.set_xlim(-0.6, len(means) - 0.4)
    right.set_title("mean, 95 % over subjects")
    return figure


def _draw_intervals(axis, rows, decoders):
    axis.axhline(0, color="#595959", linewidth=0.8, linestyle="--", zorder=0)
    for place, (decoder, row) in enumerate(zip(decoders, rows.itertuples())):
        look = {"color": colour_of(decoder), "marker": marker_of(decoder)}
        axis.plot([place, place], [row.low, row.high], color=look["color"], linewidth=1.2)
        axis.plot([place], [row.gain], linestyle="none", markersize=4.5, **look)


PLOT = Plot(
    "gains",
    "Gain by subject",
    "Gain in balanced test accuracy over the baseline. Left: the selected decoder for every subject; the interval "
    "is a bootstrap over the subject's trials, or over seeds where the trials were not at hand. Right: the mean "
    "of every decoder with a bootstrap interval over subjects. An interval that holds zero is no gain.",
    numbers,
    draw,
)

if __name__ == "__main__":
    run_script(__doc__, PLOT)
