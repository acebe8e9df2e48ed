"""The paper's figure of results: every fold's test score by decoder, and the same scores by test subject.

python paper_figures/plot_results.py --results DIR
"""

import numpy as np

from braindecode_censor.figures.folder import SELECTED
from braindecode_censor.figures.product import Plot, run_script
from braindecode_censor.figures.style import (
    PAGE,
    colour_of,
    draw_chance,
    label_of,
    legend_above,
    marker_of,
    new_figure,
    tick_subjects,
)


def numbers(results):
    """Return the score of every decoder in every fold."""
    frame = results.by_subject.rename_axis("subject").reset_index()
    frame = frame.melt("subject", var_name="decoder", value_name="score")[["decoder", "subject", "score"]]
    return frame.assign(chance=results.chance)


def draw(frame):
    """Draw the two panels."""
    figure, (by_decoder, by_subject) = new_figure(PAGE, 2.5, 1, 2, sharey=True)
    decoders, subjects = list(dict.fromkeys(frame["decoder"])), list(dict.fromkeys(frame["subject"]))
    lines = []
    for x, decoder in enumerate(decoders):
        scores = frame[frame["decoder"] == decoder].set_index("subject")["score"].reindex(subjects)
        look = {"color": colour_of(decoder), "marker": marker_of(decoder), "label": label_of(decoder)}
        points = scores.dropna()
        # Points are spread in the order of subjects, so that equal scores stay visible.
        jitter = np.linspace(-0.22, 0.22, len(points)) if len(points) > 1 else np.zeros(len(points))
        by_decoder.plot(x + jitter, points, linestyle="none", alpha=0.8, markeredgewidth=0, **look)
        by_decoder.plot([x], [points.mean()], "x", color="black", markersize=6, markeredgewidth=1.4, zorder=5)
        # A broad band behind the lines, because the selected decoder equals one of the methods.
        band = {"linewidth": 3.5, "alpha": 0.45, "markersize": 6, "zorder": 1} if decoder == SELECTED else {}
        line = {"linewidth": 0.8, "alpha": 0.9, "markeredgewidth": 0, **look, **band}
        lines += by_subject.plot(range(len(subjects)), scores, **line)
    by_decoder.set_xticks(
        range(len(decoders)), [label_of(d) for d in decoders], rotation=30, ha="right", rotation_mode="anchor"
    )
    by_decoder.set_xlim(-0.6, len(decoders) - 0.4)
    by_decoder.set_ylabel("balanced test accuracy")
    by_decoder.set_title("every fold; × is the mean")
    by_subject.set_title("by test subject")
    by_subject.set_xlabel("test subject, sorted by the baseline")
    tick_subjects(by_subject, subjects)
    for axis in (by_decoder, by_subject):
        draw_chance(axis, frame["chance"].iloc[0])
    legend_above(figure, lines, [line.get_label() for line in lines])
    return figure


PLOT = Plot(
    "results",
    "Test accuracy",
    "Balanced accuracy on subjects that were not in the training data. Left: every fold (one test subject each, "
    "averaged over seeds), with the mean as a black ×. Right: the same scores by test subject, sorted by the baseline. "
    "Dotted is chance. AutoTransfer is the configuration that the paper's rule selects, so it "
    "coincides with one of the methods.",
    numbers,
    draw,
)

if __name__ == "__main__":
    run_script(__doc__, PLOT)
