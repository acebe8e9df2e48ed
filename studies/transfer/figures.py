"""Figures of the family on people held out: leaderboard, people, tiers, weights of the ensemble, and learning curve."""

import numpy as np

from braindecode_censor.figures.style import (
    COLUMN,
    PAGE,
    PALETTE,
    legend_above,
    new_figure,
    shorten,
)
from braindecode_censor.search.family import BASELINE
from studies.transfer.tiers_table import TIERS

__all__ = ["draw_leaderboard", "draw_learning", "draw_people", "draw_tiers", "draw_weights"]

_DECODERS = {
    "paper": "paper's protocol",
    "best one": "best candidate",
    "family, averaged": "family, averaged",
}
_COLOURS = ("#595959", PALETTE[0], PALETTE[5])


_KINDS = {"network": PALETTE[0], "classical": PALETTE[2], "combination": PALETTE[5]}
_LONGEST = 36  # letters of a candidate's name


def _means(scores):
    return scores.groupby(["recording", "target", "decoder", "subject"])["score"].mean()


def _width(recordings):
    return min(PAGE, COLUMN * len(recordings))


def _width_with_names(names, recordings):
    """Return the width in inches of panels side by side, each with names of candidates on its left: a page or more."""
    longest = min(_LONGEST, max(map(len, names)))
    return max(PAGE, len(recordings) * (1.4 + 0.065 * longest))


def draw_leaderboard(scores, target="unlabeled"):
    """Draw the mean over people of every candidate and combination, the best on top."""
    target = target if target in set(scores["target"]) else scores["target"].iloc[0]
    kinds = scores.groupby("decoder")["kind"].first()
    found = _means(scores[scores["target"] == target]).dropna()
    recordings = list(dict.fromkeys(scores["recording"]))
    width = _width_with_names(kinds.index, recordings)
    figure, axes = new_figure(width, 0.8 + 0.14 * len(kinds), 1, len(recordings), squeeze=False)
    handles = {}
    for axis, recording in zip(axes[0], recordings):
        people = found.loc[recording, target].groupby("decoder")
        table = people.agg(["mean", "sem"]).sort_values("mean", kind="stable")
        for place, (decoder, row) in enumerate(table.iterrows()):
            kind = kinds[decoder]
            look = {"marker": "o", "markersize": 3, "linestyle": "none", "color": _KINDS[kind]}
            handles[kind] = axis.errorbar(row["mean"], place, xerr=row["sem"], **look)
        axis.set_yticks(range(len(table)), [shorten(name, _LONGEST) for name in table.index])
        axis.set_title(f"{recording}, {TIERS[target]}")
        axis.set_xlabel("balanced accuracy")
    order = [kind for kind in _KINDS if kind in handles]
    legend_above(figure, [handles[kind] for kind in order], order)
    return figure


def draw_tiers(scores):
    """Draw the mean over people of three decoders, by what is known of the person."""
    found = _means(scores)
    recordings = list(dict.fromkeys(scores["recording"]))
    figure, axes = new_figure(PAGE, 2.4, 1, len(recordings), squeeze=False, sharey=False)
    tiers = [tier for tier in TIERS if tier in set(scores["target"])]
    for axis, recording in zip(axes[0], recordings):
        for (decoder, label), colour in zip(_DECODERS.items(), _COLOURS):
            shown = [(k, found.get((recording, tier, decoder))) for k, tier in enumerate(tiers)]
            shown = [(k, people) for k, people in shown if people is not None]
            if shown:
                x = [k for k, _ in shown]
                mean = [people.mean() for _, people in shown]
                error = [people.std(ddof=1) / np.sqrt(len(people)) for _, people in shown]
                axis.errorbar(x, mean, error, marker="o", color=colour, label=label)
        axis.set_xticks(range(len(tiers)), [TIERS[tier] for tier in tiers], rotation=30, ha="right")
        axis.set_title(recording)
    axes[0][0].set_ylabel("balanced accuracy")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def draw_people(scores, target="unlabeled"):
    """Draw every person's score with the family against the paper's protocol."""
    found = _means(scores)
    recordings = list(dict.fromkeys(scores["recording"]))
    figure, axes = new_figure(_width(recordings), 2.6, 1, len(recordings), squeeze=False)
    for axis, recording in zip(axes[0], recordings):
        plain, family = (
            found.get((recording, "none", "paper")),
            found.get((recording, target, "family, averaged")),
        )
        if plain is None or family is None:
            axis.set_axis_off()
            continue
        low = min(plain.min(), family.min()) - 0.02
        axis.plot([low, 1], [low, 1], color="#BBBBBB", zorder=0)
        axis.scatter(plain, family.reindex(plain.index), color=_COLOURS[-1], s=14)
        axis.set_title(recording)
        axis.set_xlabel("paper's protocol")
    axes[0][0].set_ylabel("family, averaged")
    return figure


def draw_weights(weights):
    """Draw how much every candidate counts in the average for the next person, by what is known of the person."""
    recordings = list(dict.fromkeys(weights["recording"]))
    by_tier = weights.groupby(["recording", "decoder", "target"])["weight"].mean().unstack("target")
    tiers = [tier for tier in TIERS if tier in by_tier.columns]
    parts = {name: by_tier.loc[name, tiers] for name in recordings}
    parts = {name: part[part.max(axis=1) >= 0.005] for name, part in parts.items()}
    parts = {
        name: part.loc[part.mean(axis=1).sort_values(ascending=False).index] for name, part in parts.items()
    }
    rows, darkest = max(map(len, parts.values())), by_tier.max().max()
    width = _width_with_names([name for part in parts.values() for name in part.index], recordings)
    figure, axes = new_figure(width, 1.2 + 0.15 * rows, 1, len(recordings), squeeze=False)
    for axis, (recording, part) in zip(axes[0], parts.items()):
        axis.imshow(part, cmap="Blues", vmin=0, vmax=darkest, aspect="auto")
        for (row, column), weight in np.ndenumerate(part.to_numpy()):
            if weight >= 0.005:
                colour = "white" if weight > darkest / 2 else "black"
                axis.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=6, color=colour)
        axis.set_xticks(range(len(tiers)), [TIERS[tier] for tier in tiers], rotation=30, ha="right")
        axis.set_yticks(range(len(part)), [shorten(name, _LONGEST) for name in part.index])
        axis.set_title(recording)
    return figure


def draw_learning(curve):
    """Draw the score by the number of people who were recorded."""
    recordings = list(dict.fromkeys(curve["recording"]))
    figure, axes = new_figure(_width(recordings), 2.6, 1, len(recordings), squeeze=False)
    for axis, recording in zip(axes[0], recordings):
        mine = curve[curve["recording"] == recording]
        best = [name for name in dict.fromkeys(mine["decoder"]) if name != BASELINE]
        lines = [(BASELINE, "none", "paper's protocol", _COLOURS[0], "-")]
        for name in best or [BASELINE]:
            lines += [(name, "none", f"{name}, nothing known", _COLOURS[1], "--")]
            lines += [(name, "unlabeled", f"{name}, all unlabelled", _COLOURS[2], "-")]
        for decoder, target, label, colour, line in lines:
            part = mine[(mine["decoder"] == decoder) & (mine["target"] == target)].dropna()
            table = part.groupby("people")["score"].agg(["mean", "sem"])
            if len(table):
                look = {"marker": "o", "color": colour, "linestyle": line}
                axis.errorbar(table.index, table["mean"], table["sem"], label=label, **look)
        sizes = sorted(set(mine["people"]))
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, sizes, minor=False)
        axis.set_xlabel("people trained on")
        axis.set_title(recording)
        axis.legend(fontsize=6)
    axes[0][0].set_ylabel("balanced accuracy")
    return figure
