"""What censoring does on top of a decoder that is trained well: tables, words and figures of the censoring study.

python paper_figures/plot_censoring.py --results DIR               # a folder of run_censoring.py, or its tables alone
python paper_figures/plot_censoring.py --results DIR --docs docs   # the tables and figures of the documentation, too
python paper_figures/plot_censoring.py --results DIR --again DIR   # do the numbers of a second run agree?
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from braindecode_censor.figures.style import (
    PAGE,
    PALETTE,
    colour_of,
    label_of,
    legend_above,
    new_figure,
    style,
)
from studies.censoring.gain import choose_nested
from studies.censoring.page import as_details, as_markdown, as_page
from studies.censoring.runs import collect
from studies.censoring.tables import (
    answers,
    compare,
    controls,
    costs_of_half,
    gains_by_setting,
    gains_by_weight,
    read_gains,
    seed_sets,
)

__all__ = ["draw_leakage", "draw_people", "draw_trade", "draw_weights", "main", "make_tables"]

_MODES = dict(zip(("marginal", "conditional", "complementary"), PALETTE))
_NAME = "censoring"
_LOWEST = -0.1  # gain that figures show


def make_tables(out, again=None):
    """Read a study and compute its tables."""
    found = collect(out)
    scores = found["scores"]
    if scores.empty:
        raise ValueError(f"{out} holds no finished trainings: run run_censoring.py --out {out} first.")
    gains = read_gains(scores)
    weights = gains_by_weight(gains, found["leakage"])
    cost = found["cost"].groupby(["recording", "base", "device", "max_steps"], dropna=False, as_index=False)
    return {
        "answers": answers(gains),
        "settings": gains_by_setting(gains),
        "sets": seed_sets(scores),
        "again": pd.DataFrame() if again is None else compare(scores, collect(again)["scores"]),
        "controls": controls(gains, found["leakage"]),
        "weights": weights,
        "half": costs_of_half(weights),
        "cost": cost[["trainings", "seconds"]].sum(),
        "people": people_table(gains),
    }


def people_table(gains):
    """List everybody's score without censoring, and gain with what others would choose."""
    rows = []
    for (recording, base), found in gains.items():
        nested, _ = choose_nested(np.concatenate(list(found.gains.values())))
        gain = pd.DataFrame(nested)  # some settings may have fewer seeds than others
        score = found.baselines["conditional"].mean(axis=1)
        numbers = zip(range(len(nested)), score, gain.mean(axis=1), gain.sem(axis=1))
        rows += [(recording, base, *row) for row in numbers]
    return pd.DataFrame(rows, columns=["recording", "base", "subject", "score", "gain", "spread"])


def _grid(table, label, rows, columns, height, **options):
    """Axes for every pair of values of two columns that occurs, with titles above and to the left."""
    names = [list(dict.fromkeys(table[name])) for name in (rows, columns)]
    figure, axes = new_figure(PAGE, height * len(names[0]), *map(len, names), squeeze=False, **options)
    for axis, name in zip(axes[0], names[1]):
        axis.set_title(label_of(name) if columns == "method" else name)
    places = {(a, b): axes[i, j] for i, a in enumerate(names[0]) for j, b in enumerate(names[1])}
    for pair in set(places) - set(zip(table[rows], table[columns])):
        places.pop(pair).set_visible(False)
    first = {row: axis for (row, _), axis in reversed(places.items())}
    for name, axis in first.items():
        axis.set_ylabel(f"{name}\n{label}")
        axis.tick_params(labelleft=True)
    return figure, places


def draw_weights(table):
    """Draw the gain against the weight, method by method."""
    figure, places = _grid(table, "gain", "base", "method", 1.5, sharey="row", sharex="col")
    for (base, method), axis in places.items():
        axis.axhline(0, color="#595959", linewidth=0.8)
        for mode, colour in _MODES.items():
            line = table[(table["base"] == base) & (table["method"] == method) & (table["mode"] == mode)]
            axis.fill_between(
                line["weight"], line["low"], line["high"], color=colour, alpha=0.15, linewidth=0
            )
            axis.plot(line["weight"], line["gain"], color=colour, marker="o", markersize=2.5, label=mode)
        _mark_weights(axis, table.loc[table["method"] == method, "weight"])
    _look_near_zero(places)
    return _finish(figure, places, "weight")


def draw_leakage(table):
    """Draw what is left of the leakage against the weight, method by method."""
    figure, places = _grid(table, "leakage left", "base", "method", 1.5, sharey=True, sharex="col")
    for (base, method), axis in places.items():
        axis.axhline(0.5, color="#595959", linewidth=0.8, linestyle=":")
        axis.axhline(1, color="#595959", linewidth=0.8)
        for mode, colour in _MODES.items():
            line = table[(table["base"] == base) & (table["method"] == method) & (table["mode"] == mode)]
            axis.plot(line["weight"], line["share"], color=colour, marker="o", markersize=2.5, label=mode)
        _mark_weights(axis, table.loc[table["method"] == method, "weight"])
    return _finish(figure, places, "weight")


def _look_near_zero(places):
    """Cut off what loses the task, beside which gains of a few hundredths could not be seen."""
    for axis in places.values():
        axis.set_ylim(bottom=max(axis.get_ylim()[0], _LOWEST))


def _mark_weights(axis, weights):
    """Let a logarithmic axis name the weights that were tried, and no others."""
    weights = sorted(set(weights))
    axis.set_xscale("log")
    axis.set_xticks(weights, [f"{weight:g}" for weight in weights])
    axis.minorticks_off()


def _finish(figure, places, label):
    for axis in {column: axis for (_, column), axis in places.items()}.values():  # the lowest of every column
        axis.set_xlabel(label)
        axis.tick_params(labelbottom=True)
    drawn = (axis.get_legend_handles_labels() for axis in places.values())  # not every panel has everything
    by_label = {label: handle for handles, labels in drawn for handle, label in zip(handles, labels)}
    legend_above(figure, list(by_label.values()), list(by_label))
    return figure


def draw_trade(table):
    """Draw the gain against what is left of the leakage."""
    figure, places = _grid(table, "gain", "base", "recording", 1.7, sharey="col", sharex=True)
    for (base, recording), axis in places.items():
        axis.axhline(0, color="#595959", linewidth=0.8)
        axis.axvline(1, color="#595959", linewidth=0.8)
        part = table[(table["base"] == base) & (table["recording"] == recording)]
        for method, points in part.groupby("method", sort=False):
            look = {"color": colour_of(method), "s": 9, "linewidth": 0, "alpha": 0.8}
            axis.scatter(points["share"].clip(upper=2), points["gain"], label=label_of(method), **look)
    _look_near_zero(places)
    return _finish(figure, places, "leakage left")


def draw_people(table):
    """Draw everybody's gain against the score without censoring."""
    figure, places = _grid(table, "gain", "base", "recording", 1.7, sharey="row")
    for (base, recording), axis in places.items():
        axis.axhline(0, color="#595959", linewidth=0.8)
        part = table[(table["base"] == base) & (table["recording"] == recording)]
        look = {"fmt": "o", "markersize": 2.5, "linewidth": 0.8, "color": PALETTE[0]}
        axis.errorbar(part["score"], part["gain"], part["spread"].fillna(0), label="subject", **look)
    return _finish(figure, places, "accuracy without censoring")


def main(argv=None):
    """Write tables, words and figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--results", type=Path, required=True, help="folder of run_censoring.py, or its tables"
    )
    parser.add_argument("--again", type=Path, help="folder of a second run, of which numbers are compared")
    parser.add_argument("--docs", type=Path, help="folder of the documentation")
    args = parser.parse_args(argv)
    tables = make_tables(args.results, args.again)
    text, details = as_markdown(tables), as_details(tables)
    targets = [(args.results / "tables", args.results / "figures")]
    if args.docs is not None:
        targets.append((args.docs / "results", args.docs / "_static"))
    for name, table in tables.items():
        path = args.results / "tables" / f"{_NAME}_{name}.csv"
        path.parent.mkdir(exist_ok=True)
        table.to_csv(path, index=False, float_format="%.4g")
    with style():
        figures = {
            f"{_NAME}_trade": draw_trade(tables["weights"]),
            f"{_NAME}_people": draw_people(tables["people"]),
        }
        for recording, part in tables["weights"].groupby("recording", sort=False):
            figures[f"{_NAME}_gain_{recording}"] = draw_weights(part)
            figures[f"{_NAME}_leakage_{recording}"] = draw_leakage(part)
        for table_folder, figure_folder in targets:
            for folder in (table_folder, figure_folder):
                folder.mkdir(parents=True, exist_ok=True)
            (table_folder / f"{_NAME}.md").write_text(text)
            (table_folder / f"{_NAME}_tables.md").write_text(details)
            for name, figure in figures.items():
                figure.savefig(figure_folder / f"{name}.png", dpi=150)
    if args.docs is not None:
        (args.docs / "evidence.md").write_text(as_page(tables))
    print(text)


if __name__ == "__main__":
    main()
