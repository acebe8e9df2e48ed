"""The censoring study in words and Markdown tables."""

import pandas as pd

from braindecode_censor.report.censoring_tables import GROUPS

__all__ = ["as_markdown"]


def as_markdown(tables):
    """Write the tables of a study in words and Markdown.

    Parameters
    ----------
    tables : dict of str to DataFrame
        ``answers``, ``settings``, ``controls``, ``half`` and ``cost``.

    Returns
    -------
    text : str
        A section per recording.
    """
    parts = []
    cost = tables["cost"].groupby("recording")[["trainings", "seconds"]].sum()
    for recording, found in tables["answers"].groupby("recording", sort=False):
        mine = {name: table[table["recording"] == recording] for name, table in tables.items()}
        trainings, seconds = cost.loc[recording]
        parts += [f"## {recording}", *(_sentence(row) for row in found.itertuples() if row.group == "all")]
        parts += [f"{trainings:.0f} trainings, {seconds / 60:.1f} minutes of the device.", _answers(found)]
        for base, settings in mine["settings"].groupby("base", sort=False):
            parts += [f"**Each method and mode on top of `{base}`**", _settings(settings)]
        parts += ["**What should not gain**", _controls(mine["controls"])]
        parts += ["**What halving the leakage costs**", _half(mine["half"])]
    return "\n\n".join(parts) + "\n"


def _sentence(row):
    told = f"{row.gain:+.3f} ({row.low:+.3f} to {row.high:+.3f}, corrected p = {_p(row.p_holm)})"
    if row.p_holm < 0.05:
        return f"On top of `{row.base}` censoring **{'helps' if row.gain > 0 else 'hurts'}**: {told}."
    found = f"A gain of {row.detectable:.3f} would have been found with a probability of 80 %"
    return f"On top of `{row.base}` **no gain** was found: {told}. {found}."


def _p(value):
    return "" if pd.isna(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _number(value):
    return "" if pd.isna(value) else f"{value:.3f}"


def _gain(row):
    return "" if pd.isna(row.gain) else f"{row.gain:+.3f} ({row.low:+.3f} to {row.high:+.3f})"


def _table(header, rows):
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def _answers(table):
    header = ("recipe", "people", "seeds", "uncensored", "gain", "p", "corrected p", "smallest detectable")
    rows = []
    for row in table.itertuples():
        who = f"{GROUPS[row.group]} ({row.people:.0f})"
        numbers = (_gain(row), _p(row.p), _p(row.p_holm), _number(row.detectable))
        rows.append((row.base, who, row.seeds, _number(row.score), *numbers))
    return _table(header, rows)


def _settings(table):
    header = (
        "method",
        "mode",
        "weight",
        "gain, everybody",
        "corrected p",
        "gain, weaker half",
        "corrected p",
    )
    groups = {group: part.set_index(["method", "mode"]) for group, part in table.groupby("group")}
    rows = []
    for key, weak in groups["weak"].iterrows():
        every = groups["all"].loc[key]
        row = (*key, f"{every.weight:g}", _gain(every), _p(every.p_holm), _gain(weak), _p(weak.p_holm))
        rows.append((*row, _number(every.detectable)))
    return _table((*header, "smallest detectable"), rows)


def _controls(table):
    names = {
        "batches": "balanced batches, no penalty",
        "reveal": "revealing (negative weight)",
        "labels": "shuffled labels of people",
    }
    rows = [
        (row.base, names[row.control], row.method, row.mode, _gain(row), _p(row.p_holm))
        for row in table.sort_values(["base", "control"]).itertuples()
    ]
    return _table(("recipe", "control", "method", "mode", "gain", "corrected p"), rows)


def _half(table):
    rows = [
        (row.base, row.method, row.mode, "yes" if row.falls else "no", f"{row.least:.2f}")
        + (("not reached", "") if pd.isna(row.weight) else (f"{row.weight:g}", _gain(row)))
        for row in table.itertuples()
    ]
    header = (
        "recipe",
        "method",
        "mode",
        "falls with the weight",
        "least share left",
        "weight for half",
        "gain there",
    )
    return _table(header, rows)
