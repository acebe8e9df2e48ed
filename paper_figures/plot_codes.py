"""The latent code before and after censoring, coloured by subject and by class.

python paper_figures/run_probes.py --results DIR    # once, if `autotransfer run` has not done it
python paper_figures/plot_codes.py --results DIR
"""

from braindecode_censor.figures.folder import BASELINE, SELECTED, Missing
from braindecode_censor.figures.product import Plot, run_script
from braindecode_censor.figures.style import COLUMN, PALETTE, new_figure, shorten

TITLES = {BASELINE: "before", SELECTED: "after"}
MARKERS = "os^Dv<>P"
MOST = 8  # subjects in the legend; the palette has no more colours that differ


def numbers(results):
    """Return the first two principal components of every trial.

    Parameters
    ----------
    results : Results
        What to draw.

    Returns
    -------
    frame : DataFrame
        Columns decoder, left_out, subject, label, first, second and explained.
    """
    frame = results.probed("codes")
    if frame.empty:
        raise Missing("no weights of baseline and selected decoder were found")
    return frame


def draw(frame):
    """Draw two panels per decoder, by subject and by class.

    Parameters
    ----------
    frame : DataFrame
        From :func:`numbers`.

    Returns
    -------
    figure : Figure
        As wide as a column.
    """
    decoders = list(dict.fromkeys(frame["decoder"]))
    figure, axes = new_figure(COLUMN, 3.3, 2, len(decoders), squeeze=False)
    for column, decoder in enumerate(decoders):
        mine = frame[frame["decoder"] == decoder]
        share = mine["explained"].iloc[0]
        axes[0, column].set_title(f"{TITLES[decoder]}, {100 * share:.0f} %")
        for axis, by in zip(axes[:, column], ("subject", "label")):
            _scatter(axis, mine, by)
            axis.set_xticks([])
            axis.set_yticks([])
    for axis, text in zip(axes[:, 0], ("by subject", "by class")):
        axis.set_ylabel(f"PC 2, {text}")
    for axis in axes[1]:
        axis.set_xlabel("PC 1")
    for row, by in enumerate(("subject", "label")):
        handles, labels = axes[row, -1].get_legend_handles_labels()
        handles, labels = handles[:MOST], labels[:MOST]
        if frame[by].nunique() > MOST:
            labels[-1] += " …"
        axes[row, -1].legend(
            handles, labels, title=by.replace("label", "class"), title_fontsize=6.5, loc="center left",
            bbox_to_anchor=(1.0, 0.5), handletextpad=0.2, borderpad=0.2, markerscale=1.6,
        )  # fmt: skip
    return figure


def _scatter(axis, mine, by):
    for place, value in enumerate(sorted(mine[by].unique())):
        rows = mine[mine[by] == value]
        axis.plot(
            rows["first"], rows["second"], linestyle="none", marker=MARKERS[place % len(MARKERS)], markersize=1.8,
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
