"""The latent code before and after censoring, coloured by subject and by class.

python paper_figures/run_probes.py --results DIR    # once, if `autotransfer run` has not done it
python paper_figures/plot_codes.py --results DIR
"""

from braindecode_censor.figures.folder import BASELINE, SELECTED, Missing
from braindecode_censor.figures.product import Plot, run_script
from braindecode_censor.figures.style import COLUMN, PAGE, PALETTE, new_figure, shorten

TITLES = {BASELINE: "before", SELECTED: "after"}
MARKERS = "os^Dv<>P"
_COLUMNS = 10  # of the legend below
MANY = 8  # subjects beside the panels; of more than that the legend stands below, in columns
MOST = len(PALETTE) * len(MARKERS)  # colours and markers together tell so many apart


def numbers(results):
    """Return the first two principal components of every trial."""
    frame = results.probed("codes")
    if frame.empty:
        raise Missing("no weights of baseline and selected decoder were found")
    return frame


def draw(frame):
    """Draw two panels per decoder, by subject and by class."""
    decoders = list(dict.fromkeys(frame["decoder"]))
    many = frame["subject"].nunique() > MANY
    lines = -(-min(frame["subject"].nunique(), MOST) // _COLUMNS) if many else 0
    size = (PAGE, 4.6 + 0.14 * lines) if many else (COLUMN, 3.3)
    figure, axes = new_figure(*size, 2, len(decoders), squeeze=False)
    for column, decoder in enumerate(decoders):
        mine = frame[frame["decoder"] == decoder]
        share = mine["explained"].iloc[0]
        axes[0, column].set_title(f"{TITLES[decoder]}, {100 * share:.0f} %")
        for axis, by in zip(axes[:, column], ("subject", "label")):
            _scatter(axis, mine, by, 3.0 if many else 1.8)
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
    if len(labels) > MOST:
        handles, labels = handles[:MOST], [*labels[: MOST - 1], f"{labels[MOST - 1]} …"]
    title = by.replace("label", "class")
    look = {"title": title, "title_fontsize": 6.5, "handletextpad": 0.2, "borderpad": 0.2, "markerscale": 1.6}
    if below:
        figure.legend(handles, labels, loc="outside lower center", ncols=_COLUMNS, **look)
    else:
        axis.legend(handles, labels, loc="center left", bbox_to_anchor=(1.0, 0.5), **look)


def _scatter(axis, mine, by, size):
    for place, value in enumerate(sorted(mine[by].unique())):
        rows = mine[mine[by] == value]
        # colours first, then markers, so that no two people look alike
        marker = (
            MARKERS[place // len(PALETTE) % len(MARKERS)]
            if by == "subject"
            else MARKERS[place % len(MARKERS)]
        )
        axis.plot(
            rows["first"], rows["second"], linestyle="none", marker=marker, markersize=size,
            color=PALETTE[place % len(PALETTE)], alpha=0.7, markeredgewidth=0, label=shorten(value, 10),
        )  # fmt: skip


PLOT = Plot(
    "codes",
    "Latent code before and after",
    "First two principal components of the latent code of all subjects' trials, of the first fold, with their share "
    "of the variance: the baseline and the selected decoder, coloured by subject (top) and by class (bottom). Two "
    "components are a shadow of the code: what looks mixed here may still be told apart by a probe, see the leakage.",
    numbers,
    draw,
)

if __name__ == "__main__":
    run_script(__doc__, PLOT)
