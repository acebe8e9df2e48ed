"""Figures and Markdown tables of a transfer study; nothing is trained.

python -m studies.transfer.plot --results DIR                                # of run.py
python -m studies.transfer.plot --results docs/results/transfer --docs docs  # those of the documentation
"""

import argparse
from pathlib import Path

import numpy as np

from braindecode_censor.figures.product import render
from braindecode_censor.figures.style import COLUMN, PAGE, PALETTE, legend_above, new_figure, shorten, style
from braindecode_censor.search.family import BASELINE
from braindecode_censor.storage.files import write_atomically
from studies.tables import read_tables
from studies.transfer import censored
from studies.transfer.run import TABLES
from studies.transfer.scores import RULE_LABELS
from studies.transfer.table import as_markdown, compare_targets
from studies.transfer.target_data import label_of, order_of

#: Folder of a dataset -> title in the documentation.
RECORDING_TITLES = {"erp_uci_smni": "ERP", "ssvep_exo": "SSVEP", "emg_myo": "EMG"}
_ENSEMBLE = RULE_LABELS["greedy"]
#: Decoder -> its label and colour in figures of target data.
_DECODERS = {
    BASELINE: ("paper's protocol", "#595959"),
    RULE_LABELS["pick"]: ("best candidate", PALETTE[0]),
    _ENSEMBLE: (_ENSEMBLE, PALETTE[5]),
}
_KINDS = {"network": PALETTE[0], "classical": PALETTE[2], "combination": PALETTE[5]}
_LONGEST = 36  # letters of a candidate's name
_SMALLEST = 0.005  # weight that is shown


def _means(scores):
    return scores.groupby(["recording", "target", "decoder", "subject"])["score"].mean()


def _names(table):
    return list(dict.fromkeys(table["recording"]))


def _panels(recordings, height, width=None, **options):
    figure, axes = new_figure(
        width or min(PAGE, COLUMN * len(recordings)), height, 1, len(recordings), squeeze=False, **options
    )
    for axis, recording in zip(axes[0], recordings):
        axis.set_title(recording)
    return figure, axes[0]


def _width_with_names(names, recordings):
    """Return the width in inches of panels that each have names of candidates on their left."""
    longest = min(_LONGEST, max(map(len, names)))
    return max(PAGE, len(recordings) * (1.4 + 0.065 * longest))


def draw_leaderboard(scores, target="unlabeled"):
    """Draw the mean over subjects of every candidate and combination, the best on top."""
    target = target if target in set(scores["target"]) else scores["target"].iloc[0]
    kinds = scores.groupby("decoder")["kind"].first()
    means, handles = _means(scores[scores["target"] == target]).dropna(), {}
    width = _width_with_names(kinds.index, _names(scores))
    figure, axes = _panels(_names(scores), 0.8 + 0.14 * len(kinds), width)
    for axis, recording in zip(axes, _names(scores)):
        table = means.loc[recording, target].groupby("decoder").agg(["mean", "sem"])
        table = table.sort_values("mean", kind="stable")
        for position, (decoder, row) in enumerate(table.iterrows()):
            look = {"marker": "o", "markersize": 3, "linestyle": "none", "color": _KINDS[kinds[decoder]]}
            handles[kinds[decoder]] = axis.errorbar(row["mean"], position, xerr=row["sem"], **look)
        axis.set_yticks(range(len(table)), [shorten(name, _LONGEST) for name in table.index])
        axis.set_title(f"{recording}, target data: {label_of(target)}")
        axis.set_xlabel("balanced accuracy")
    order = [kind for kind in _KINDS if kind in handles]
    legend_above(figure, [handles[kind] for kind in order], order)
    return figure


def draw_targets(scores):
    """Draw the mean over subjects of three decoders, by target data."""
    means, targets = _means(scores), order_of(scores["target"])
    figure, axes = _panels(_names(scores), 2.4, PAGE, sharey=False)
    for axis, recording in zip(axes, _names(scores)):
        for decoder, (label, colour) in _DECODERS.items():
            points = [(k, means.get((recording, target, decoder))) for k, target in enumerate(targets)]
            points = [(k, by_subject) for k, by_subject in points if by_subject is not None]
            if points:
                table = [(k, by_subject.mean(), by_subject.sem()) for k, by_subject in points]
                axis.errorbar(*zip(*table), marker="o", color=colour, label=label)
        axis.set_xticks(range(len(targets)), map(label_of, targets), rotation=30, ha="right")
    axes[0].set_ylabel("balanced accuracy")
    legend_above(figure, *axes[0].get_legend_handles_labels())
    return figure


def draw_subjects(scores, target="unlabeled"):
    """Draw every subject's score with the ensemble against that with the paper's protocol."""
    means = _means(scores)
    figure, axes = _panels(_names(scores), 2.6)
    for axis, recording in zip(axes, _names(scores)):
        paper, ensemble = means.get((recording, "none", BASELINE)), means.get((recording, target, _ENSEMBLE))
        if paper is None or ensemble is None:
            axis.set_axis_off()
            continue
        low = min(paper.min(), ensemble.min()) - 0.02
        axis.plot([low, 1], [low, 1], color="#BBBBBB", zorder=0)
        axis.scatter(paper, ensemble.reindex(paper.index), color=PALETTE[5], s=14)
        axis.set_xlabel("paper's protocol")
    axes[0].set_ylabel(_ENSEMBLE)
    return figure


def draw_weights(weights):
    """Draw the weight of every candidate in the ensemble for a new subject, by target data."""
    recordings, targets = _names(weights), order_of(weights["target"])
    table = weights.groupby(["recording", "decoder", "target"])["weight"].mean().unstack("target")[targets]
    darkest = table.max().max()
    table = table[table.max(axis=1) >= _SMALLEST]
    blocks = [table.loc[name] for name in recordings]
    blocks = [block.loc[block.mean(axis=1).sort_values(ascending=False).index] for block in blocks]
    width = _width_with_names([name for block in blocks for name in block.index], recordings)
    figure, axes = _panels(recordings, 1.2 + 0.15 * max(map(len, blocks)), width)
    for axis, block in zip(axes, blocks):
        axis.imshow(block, cmap="Blues", vmin=0, vmax=darkest, aspect="auto")
        for (row, column), weight in np.ndenumerate(block.to_numpy()):
            if weight >= _SMALLEST:
                colour = "white" if weight > darkest / 2 else "black"
                axis.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=6, color=colour)
        axis.set_xticks(range(len(targets)), map(label_of, targets), rotation=30, ha="right")
        axis.set_yticks(range(len(block)), [shorten(name, _LONGEST) for name in block.index])
    return figure


def draw_learning(curve):
    """Draw the score by the number of subjects to train on."""
    figure, axes = _panels(_names(curve), 2.6)
    for axis, recording in zip(axes, _names(curve)):
        rows = curve[curve["recording"] == recording]
        lines = [(BASELINE, "none", "paper's protocol", _DECODERS[BASELINE][1], "-")]
        for name in dict.fromkeys(rows["decoder"][rows["decoder"] != BASELINE]):
            lines += [(name, "none", f"{name}, no target data", PALETTE[0], "--")]
            lines += [(name, "unlabeled", f"{name}, all unlabelled", PALETTE[5], "-")]
        for decoder, target, label, colour, line in lines:
            is_shown = (rows["decoder"] == decoder) & (rows["target"] == target)
            table = rows[is_shown].dropna().groupby("n_train")["score"].agg(["mean", "sem"])
            if len(table):
                look = {"marker": "o", "color": colour, "linestyle": line}
                axis.errorbar(table.index, table["mean"], table["sem"], label=label, **look)
        sizes = sorted(set(rows["n_train"]))
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, sizes, minor=False)
        axis.set_xlabel("subjects to train on")
        axis.legend(fontsize=6)
    axes[0].set_ylabel("balanced accuracy")
    return figure


#: Name of the figure that the documentation shows.
_IN_DOCS = "targets"
#: Name of a figure -> the table that it shows, and the function that draws it.
FIGURES = {
    "leaderboard": ("scores", draw_leaderboard),
    "subjects": ("scores", draw_subjects),
    "targets": ("scores", draw_targets),
    "weights": ("weights", draw_weights),
    "learning": ("learning", draw_learning),
}


def draw(tables):
    """Yield name and files (ending -> content) of every figure whose table is there."""
    with style():
        for name, (table, function) in FIGURES.items():
            if table in tables:
                yield name, render(function(tables[table]))


def main(argv=None):
    """Write tables and figures beside the results, or those of the documentation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--docs", type=Path, help="folder of the documentation")
    args = parser.parse_args(argv)
    tables = read_tables(args.results, TABLES)
    if "scores" not in tables:
        parser.error(f"--results {args.results} has no scores.csv.gz: name a folder of run.py.")
    if args.docs is not None:
        tables = {name: table.replace({"recording": RECORDING_TITLES}) for name, table in tables.items()}
    texts = {"tiers.md": as_markdown(compare_targets(tables["scores"], tables.get("cost")))}
    texts["censored_candidates.md"] = censored.as_markdown(censored.compare_censored(tables["scores"]))
    folder = args.results if args.docs is None else args.docs / "results"
    for name, text in texts.items():
        if text:
            write_atomically(folder / name, text.encode())
            print(text)
    for name, files in draw(tables):
        for ending, content in files.items():
            if args.docs is None:
                write_atomically(folder / f"transfer_{name}.{ending}", content)
            elif (name, ending) == (_IN_DOCS, "png"):
                write_atomically(args.docs / "_static" / f"transfer_{name}.png", content)


if __name__ == "__main__":
    main()
