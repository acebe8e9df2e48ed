"""Style of all figures: sizes of the paper's page, colours that colour-blind readers can distinguish, labels."""

from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from braindecode_censor.paper.grid import METHODS
from braindecode_censor.paper.selection import SELECTED

__all__ = [
    "COLUMN",
    "PAGE",
    "colour_of",
    "draw_chance",
    "label_of",
    "legend_above",
    "marker_of",
    "new_figure",
    "style",
    "tick_subjects",
]

#: Width in inches of a column and of both columns with the gap, on letter paper with margins of 0.75 inch.
COLUMN, PAGE = 3.4, 7.0
# Okabe and Ito's palette, with the baseline in grey; markers tell the same in black and white.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
_LOOKS = {
    "baseline": ("#595959", "o", "Baseline"),
    **{
        method: (colour, marker, label)
        for method, colour, marker, label in zip(
            METHODS, _COLOURS, "s^Dv<", ("Adv", "MIGE", "MMD", "PairMMD", "BEGAN")
        )
    },
    SELECTED: ("#D55E00", "P", "AutoTransfer"),
}
_REFERENCES = ("#8C6D31", "#637939", "#7B4173", "#843C39")
_MAX_LETTERS = 14  # of a label
#: Colours of subjects and classes.
PALETTE = (*_COLOURS, "#D55E00", "#F0E442", "#000000")


def style():
    """Return a context in which figures are made and saved."""
    return matplotlib.rc_context({**matplotlib.rcParamsDefault, **_read_style()})


def _read_style():
    path = Path(__file__).with_name("style.mplstyle")
    return dict(matplotlib.rc_params_from_file(path, use_default_template=False))


def new_figure(width, height, rows=1, columns=1, **options):
    """Return a figure and its axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def colour_of(decoder):
    """Return the colour of a decoder, the same in all figures."""
    return _look(decoder)[0]


def marker_of(decoder):
    """Return the marker of a decoder, the same in all figures."""
    return _look(decoder)[1]


def label_of(decoder):
    """Return the printed name of a decoder."""
    return _look(decoder)[2]


def _look(decoder):
    if decoder in _LOOKS:
        return _LOOKS[decoder]
    # The look of other pipelines follows from their name, so that all figures agree.
    number = sum(map(ord, decoder))
    return _REFERENCES[number % len(_REFERENCES)], "Xph8"[number % 4], shorten(decoder)


def shorten(text, longest=_MAX_LETTERS):
    """Cut a label that would not fit."""
    text = str(text)
    if len(text) > longest:
        head = (longest - 1) // 2
        text = f"{text[:head]}…{text[head + 1 - longest :]}"
    return text.replace("$", r"\$")


def tick_subjects(axis, subjects):
    """Label one tick per subject, upright where the names would touch."""
    names = [shorten(subject) for subject in subjects]
    width = axis.get_figure().get_figwidth() / axis.get_gridspec().ncols
    room = 0.8 * width / max(len(names), 1)  # inches per name; a letter of 6.5 points takes about 0.06
    step = max(1, -(-len(names) // int(0.8 * width / 0.12)))  # upright names need 0.12 inch each
    upright = step > 1 or 0.06 * max(map(len, names), default=1) + 0.05 > room
    ticks = range(0, len(names), step)
    axis.set_xticks(ticks, [names[k] for k in ticks], rotation=90 if upright else 0)
    axis.set_xlim(-0.5, len(names) - 0.5)


def draw_chance(axis, chance):
    """Draw the chance level."""
    if pd.notna(chance):
        line = {"color": "#595959", "linewidth": 0.9, "linestyle": ":", "zorder": 0}
        axis.axhline(chance, label="_chance", **line)


def legend_above(figure, handles, labels, columns=8):
    """Draw one legend above all axes."""
    figure.legend(handles, labels, loc="outside upper center", ncols=min(columns, len(labels)))
