"""Accuracy against the penalty weight λ, by method and mode.

python paper_figures/plot_weights.py --results DIR
"""

import pandas as pd

from braindecode_censor.figures.folder import BASELINE, Missing
from braindecode_censor.figures.product import Plot, run_script
from braindecode_censor.figures.style import PAGE, draw_chance, label_of, legend_above, new_figure
from braindecode_censor.penalties.measures import MEASURES

# Within a panel the method is the same, so modes have their own colours.
MODES = {
    "marginal": ("#0072B2", "o", "-"),
    "conditional": ("#D55E00", "s", "--"),
    "complementary": ("#009E73", "^", ":"),
}


def numbers(results):
    """Return the scores of every setting."""
    search = results.require("search.csv", "it is written by `autotransfer run`")
    frame = search[["method", "mode", "weight", "setting"]].assign(search=search["score_valid"])
    tested = results.scores.groupby("setting")["score"].mean()
    frame["test"] = frame["setting"].map(tested)
    baseline = pd.DataFrame(
        [{"method": BASELINE, "setting": BASELINE, "test": tested.get(BASELINE, float("nan"))}]
    )
    frame = pd.concat([frame[frame["weight"] > 0], baseline], ignore_index=True)
    if frame["search"].notna().sum() == 0:
        raise Missing("search.csv holds no score that is a number")
    frame = frame.assign(chance=results.chance)
    return frame.sort_values(["method", "mode", "weight", "setting"], ignore_index=True)


def draw(frame):
    """Draw one panel per method."""
    methods = [method for method in MEASURES if method in set(frame["method"])]
    figure, axes = new_figure(PAGE, 1.9, 1, len(methods), sharey=True, squeeze=False)
    baseline = frame.loc[frame["method"] == BASELINE, "test"].iloc[0]
    handles = {}
    for axis, method in zip(axes[0], methods):
        curves = frame[frame["method"] == method]
        if baseline == baseline:  # not NaN
            handles["baseline, test"] = axis.axhline(baseline, color="#595959", linewidth=0.8, linestyle="-.")
        for mode, (colour, marker, line) in MODES.items():
            rows = curves[curves["mode"] == mode].dropna(subset="search")
            if rows.empty:
                continue
            best = rows.groupby("weight")["search"].max()  # over the method's other options
            handles[f"{mode}, validation"] = axis.plot(
                best.index, best, color=colour, marker=marker, linestyle=line, markersize=3
            )[0]
            tested = rows.dropna(subset="test")
            markers = axis.plot(
                tested["weight"], tested["test"], linestyle="none", marker=marker, color=colour,
                markerfacecolor="none", markersize=6.5, markeredgewidth=0.9,
            )  # fmt: skip
            if len(tested):
                handles[f"{mode}, test"] = markers[0]
        draw_chance(axis, frame["chance"].iloc[0])
        axis.set_xscale("log")
        axis.margins(x=0.15)
        axis.set_title(label_of(method))
        axis.tick_params(axis="x", which="minor", bottom=False)
        _ticks(axis, curves["weight"])
    axes[0, 0].set_ylabel("balanced accuracy")
    figure.supxlabel("penalty weight λ", fontsize=7)
    order = [f"{mode}, {score}" for mode in MODES for score in ("validation", "test")]
    names = [name for name in (*order, "baseline, test") if name in handles]
    legend_above(figure, [handles[name] for name in names], names, columns=4)
    return figure


def _ticks(axis, weights):
    """Mark the values of a grid; matplotlib marks those of Optuna, which are many."""
    values = sorted(set(weights))
    if len(values) <= 5:
        axis.set_xticks(values, [f"{value:g}" for value in values])
        axis.set_xticks([], minor=True)


PLOT = Plot(
    "weights",
    "Weight of the penalty",
    "Lines: validation accuracy in the search (one split, one seed; the best of the method's other options). Open "
    "markers: mean test accuracy over all folds of the configurations that were cross-validated, with the baseline as "
    "a horizontal line; dotted is chance.",
    numbers,
    draw,
    "Search",
)

if __name__ == "__main__":
    run_script(__doc__, PLOT)
