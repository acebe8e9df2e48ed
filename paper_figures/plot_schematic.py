"""The paper's schematic: the penalty in the model, and its effect on the code.

python paper_figures/plot_schematic.py --results DIR
"""

import numpy as np
from matplotlib.patches import Ellipse, FancyArrowPatch, FancyBboxPatch

from braindecode_censor.figures.product import Plot, run_script
from braindecode_censor.figures.style import COLUMN, PALETTE, new_figure

_GREY, _BLUE, _RED = "#595959", PALETTE[0], "#D55E00"


def numbers(results):
    """Return None: nothing is measured here."""
    return


def draw(_=None):
    """Draw the model above and two subjects' codes below."""
    figure, (top, bottom) = new_figure(COLUMN, 2.7, 2, 1, gridspec_kw={"height_ratios": [5, 4]})
    _draw_model(top)
    _draw_effect(bottom)
    return figure


def _draw_model(axis):
    axis.set_axis_off()
    axis.set(xlim=(0.2, 7.3), ylim=(0.2, 2.7))
    boxes = {
        "x": (0.75, 2.2, 1.0, "signal\n$x$", _GREY),
        "f": (2.25, 2.2, 1.15, "encoder\n$f_\\theta$", _BLUE),
        "z": (3.7, 2.2, 0.95, "code\n$z$", _GREY),
        "g": (5.15, 2.2, 1.2, "classifier\n$g_\\phi$", _BLUE),
        "task": (6.65, 2.2, 1.15, "task loss\n$\\mathcal{L}_{task}$", _GREY),
        "s": (2.25, 0.7, 1.2, "subject $s$\n(class $y$)", _GREY),
        "a": (3.7, 0.7, 0.95, "censor\n$\\alpha_\\psi$", _RED),
        "censor": (5.15, 0.7, 1.2, "penalty\n$\\lambda\\,\\mathcal{L}_{censor}$", _RED),
    }
    for x, y, width, text, colour in boxes.values():
        frame = FancyBboxPatch(
            (x - width / 2, y - 0.45), width, 0.9, boxstyle="round,pad=0,rounding_size=0.08",
            facecolor="white", edgecolor=colour, linewidth=1.0,
        )  # fmt: skip
        axis.add_patch(frame)
        axis.text(x, y, text, ha="center", va="center", fontsize=6.5, linespacing=1.25)
    for first, second in ("xf", "fz", "zg", ("g", "task"), "sa", ("a", "censor")):
        start, end = boxes[first], boxes[second]
        _arrow(axis, (start[0] + start[2] / 2, start[1]), (end[0] - end[2] / 2, end[1]), _GREY)
    _arrow(axis, (3.7, 1.75), (3.7, 1.15), _GREY)
    _arrow(axis, (3.3, 1.15), (2.7, 1.75), _RED, style="--")
    axis.text(2.75, 1.45, "gradient", ha="right", va="center", fontsize=6.5, color=_RED)


def _draw_effect(axis):
    axis.set_axis_off()
    axis.set(xlim=(0.2, 7.3), ylim=(0, 2.6))
    looks = ((_BLUE, "o", "$q(z\\,|\\,s_1)$"), (PALETTE[1], "^", "$q(z\\,|\\,s_2)$"))
    rng = np.random.default_rng(3)
    clouds = [np.clip(rng.standard_normal((25, 2)), -2, 2) for _ in looks]
    for centre, gap, title in ((1.9, 0.75, "plain training"), (5.6, 0.12, "censored")):
        for (colour, marker, name), cloud, side in zip(looks, clouds, (-1, 1)):
            middle = (centre + side * gap, 1.05 + 0.15 * side * gap)
            axis.add_patch(Ellipse(middle, 1.7, 1.3, facecolor=colour, alpha=0.18, linewidth=0))
            points = np.asarray(middle) + cloud * (0.34, 0.26)
            axis.plot(
                *points.T, linestyle="none", marker=marker, color=colour, markersize=2.2, markeredgewidth=0
            )
            if gap > 0.5:
                axis.text(
                    middle[0] + side * 0.35, 0.05, name, ha="center", va="bottom", fontsize=6.5, color="black"
                )
        axis.text(centre, 2.15, title, ha="center", va="bottom", fontsize=7)
    _arrow(axis, (3.75, 1.05), (4.4, 1.05), _GREY, width=1.4)


def _arrow(axis, start, end, colour, style="-", width=0.9):
    arrow = FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=6, color=colour, linewidth=width, linestyle=style,
        shrinkA=0, shrinkB=0,
    )  # fmt: skip
    axis.add_patch(arrow)


PLOT = Plot(
    "schematic",
    "The method",
    "Top: subject s produces the signal x, which the encoder maps to the code z; the classifier is trained on the "
    "task loss. A censoring model measures how much information z holds about s (in conditional mode within each class "
    "y), and λ times that penalty is added. Bottom: the codes of two subjects are drawn together.",
    numbers,
    draw,
    "Method",
)

if __name__ == "__main__":
    run_script(__doc__, PLOT)
