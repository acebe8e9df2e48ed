"""The latent code before and after censoring, coloured by subject and by class.

autotransfer report --out DIR                       # probes the decoders, where this is not done
python paper_figures/plot_codes.py --results DIR
"""

from braindecode_censor.figures.folder import BASELINE, SELECTED, Missing
from braindecode_censor.figures.product import Plot, run_script
from braindecode_censor.figures.style import COLUMN, PAGE, PALETTE, new_figure, shorten

TITLES = {BASELINE: "before", SELECTED: "after"}
MARKERS = "os^Dv<>P"
_COLUMNS = 10  # of the legend below
MAX_BESIDE = 8  # subjects in a legend beside the panels; a larger one is below, in columns
MAX_MARKERS = len(PALETTE) * len(MARKERS)  # combinations of colours and markers


def numbers(results):
    """Return the first two principal components of every trial."""
    frame = results.probed("codes")
    if frame.empty:
        raise Missing("probes/codes.csv is empty: the weights of baseline and selected decoder are missing")
    return frame


def draw(frame):
    """Draw two panels per decoder, by subject and by class."""
    decoders = list(dict.fromkeys(frame["decoder"]))
    many = frame["subject"].nunique() > MAX_BESIDE
    lines = -(-min(frame["subject"].nunique(), MAX_MARKERS) // _COLUMNS) if many else 0
    size = (PAGE, 4.6 + 0.14 * lines) if many else (COLUMN, 3.3)
    figure, axes = new_figure(*size, 2, len(decoders), squeeze=False)
    for column, decoder in enumerate(decoders):
        rows = frame[frame["decoder"] == decoder]
        axes[0, column].set_title(f"{TITLES[decoder]}, {100 * rows['explained'].iloc[0]:.0f} %")
        for axis, by in zip(axes[:, column], ("subject", "label")):
            _scatter(axis, rows, by, 3.0 if many else 1.8)
            axis.set_xticks([])
            axis.set_yticks([])
    for axis, text in zip(axes[:, 0], ("by subject", "by class")):
        axis.set_ylabel(f"PC 2, {text}")
    for axis in axes[1]:
        axis.set_xlabel("PC 1")
    for row, by in enumerate(("subject", "label")):
        _add_legend(figure, axes[row, -1], by, below=many and by == "subject")
    return figure


def _add_legend(figure, axis, by, below):
    handles, labels = axis.get_legend_handles_labels()
    if len(labels) > MAX_MARKERS:
        handles, labels = handles[:MAX_MARKERS], [*labels[: MAX_MARKERS - 1], f"{labels[MAX_MARKERS - 1]} …"]
    title = by.replace("label", "class")
    look = {"title": title, "title_fontsize": 6.5, "handletextpad": 0.2, "borderpad": 0.2, "markerscale": 1.6}
    if below:
        figure.legend(handles, labels, loc="outside lower center", ncols=_COLUMNS, **look)
    else:
        axis.legend(handles, labels, loc="center left", bbox_to_anchor=(1.0, 0.5), **look)


def _scatter(axis, frame, by, size):
    for number, value in enumerate(sorted(frame[by].unique())):
        rows = frame[frame[by] == value]
        # Subjects cycle through colours before markers, so that no two of them look the same.
        cycle = number // len(PALETTE) if by == "subject" else number
        axis.plot(
            rows["first"], rows["second"], linestyle="none", marker=MARKERS[cycle % len(MARKERS)], markersize=size,
            color=PALETTE[number % len(PALETTE)], alpha=0.7, markeredgewidth=0, label=shorten(value, 10),
        )  # fmt: skip


PLOT = Plot(
    "codes",
    "Latent code before and after",
    "First two principal components of the latent code of all subjects' trials, of the first fold, with their share "
    "of the variance: the baseline and the selected decoder, coloured by subject (top) and by class (bottom). Two "
    "components hold only part of the code: subjects that look mixed here may still differ for a probe, see subject "
    "leakage.",
    numbers,
    draw,
    "Subject leakage",
)

if __name__ == "__main__":
    run_script(__doc__, PLOT)
