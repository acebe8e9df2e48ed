"""The gain of the selected decoder for every subject, and of every decoder on average, with intervals.

python paper_figures/plot_gains.py --results DIR
"""

import pandas as pd

from braindecode_censor.figures.folder import BASELINE, SELECTED, Missing
from braindecode_censor.figures.product import Plot, run_script
from braindecode_censor.figures.style import PAGE, colour_of, label_of, marker_of, new_figure, tick_subjects
from braindecode_censor.paper.selection import scores_of
from braindecode_censor.paper.statistics import compare, seed_interval


def numbers(results):
    """Return the gains over the baseline."""
    scores = results.by_subject
    if BASELINE not in scores or SELECTED not in scores:
        raise Missing("gains need scores of the baseline and of the selected decoder")
    rows = _by_subject(results, scores)
    for decoder in scores.columns.drop(BASELINE):
        # As in the table of results: same order, same draws.
        both = scores[[decoder, BASELINE]].dropna().sort_index()
        gain = compare(both[decoder], both[BASELINE])
        rows.append((decoder, "all", gain["gain"], gain["low"], gain["high"], "subjects"))
    return pd.DataFrame(rows, columns=["decoder", "subject", "gain", "low", "high", "over"])


def _by_subject(results, scores):
    gains = (scores[SELECTED] - scores[BASELINE]).dropna()
    try:
        probed = results.probed("gains").set_index("subject").reindex(gains.index)
        return [(SELECTED, s, gains[s], probed["low"][s], probed["high"][s], "trials") for s in gains.index]
    except Missing:
        pass
    selected, baseline = (scores_of(results.scores, results.decoders[d]) for d in (SELECTED, BASELINE))
    over_seeds = (selected - baseline).loc[gains.index]
    half = pd.Series(seed_interval(over_seeds), gains.index)
    over = "seeds" if over_seeds.shape[1] > 1 else "nothing"
    return [(SELECTED, s, gains[s], gains[s] - half[s], gains[s] + half[s], over) for s in gains.index]


def draw(frame):
    """Draw the two panels."""
    figure, (by_subject, by_decoder) = new_figure(
        PAGE, 2.3, 1, 2, sharey=True, gridspec_kw={"width_ratios": [3, 2]}
    )
    gains, means = frame[frame["over"] != "subjects"], frame[frame["over"] == "subjects"]
    over = gains["over"].iloc[0]
    _draw_intervals(by_subject, gains, [SELECTED] * len(gains))
    tick_subjects(by_subject, gains["subject"])
    by_subject.set_xlabel("test subject, sorted by the baseline")
    by_subject.set_ylabel("gain over the baseline")
    by_subject.set_title(
        f"{label_of(SELECTED)}, {'no interval' if over == 'nothing' else f'95 % over {over}'}"
    )
    _draw_intervals(by_decoder, means, means["decoder"])
    labels = [label_of(decoder) for decoder in means["decoder"]]
    by_decoder.set_xticks(range(len(means)), labels, rotation=30, ha="right", rotation_mode="anchor")
    by_decoder.set_xlim(-0.6, len(means) - 0.4)
    by_decoder.set_title("mean, 95 % over subjects")
    return figure


def _draw_intervals(axis, rows, decoders):
    axis.axhline(0, color="#595959", linewidth=0.8, linestyle="--", zorder=0)
    for x, (decoder, row) in enumerate(zip(decoders, rows.itertuples())):
        look = {"color": colour_of(decoder), "marker": marker_of(decoder)}
        axis.plot([x, x], [row.low, row.high], color=look["color"], linewidth=1.2)
        axis.plot([x], [row.gain], linestyle="none", markersize=4.5, **look)


PLOT = Plot(
    "gains",
    "Gain by subject",
    "Gain in balanced test accuracy over the baseline. Left: the selected decoder for every subject; the interval "
    "is a bootstrap over the subject's trials, or over seeds without the trials. Right: the mean "
    "of every decoder with a bootstrap interval over subjects. An interval that contains zero shows no gain.",
    numbers,
    draw,
)

if __name__ == "__main__":
    run_script(__doc__, PLOT)
