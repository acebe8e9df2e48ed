"""The censoring study in words and Markdown tables."""

import pandas as pd

from braindecode_censor.report.censoring_tables import GROUPS

__all__ = ["as_markdown", "as_page"]


_INTRO = """# Does censoring help on top?

The paper measures its gains against a network trained by its own protocol. Here every way of censoring is put on
top of decoders that are trained well without it, and on top of the paper's protocol, and compared with the same
training without the penalty: the same seeds, the same folds of people, the same kind of batches.

```
python paper_figures/run_censoring.py --data DIR --out results/censoring --device cuda  # goes on if interrupted
python paper_figures/plot_censoring.py --results results/censoring --docs docs  # writes all that is below
```

**How it was measured.** Five methods in three modes, each with several weights, on top of each recipe of the table.
People are shared out to a few folds, anew with every seed, and everybody is decoded by networks that have not seen
them: with the person's own unlabelled trials, by the paper's protocol with nothing but the trial. Scores are
balanced accuracies. *Leakage* is how often a fresh linear probe, cross-validated over the trials of the training
people, names the person from the code, less chance: from the whole code, class by class for conditional censoring,
from the first half for complementary censoring.

**How it is judged.** A weight, or a method, is chosen for every person by all *other* people, so the gain is what a
user would have got; its interval and its p come from a wild bootstrap over people and seeds in which the choice is
repeated. p is corrected by Holm's method within a question: all rows of a recording for the first table, the
fifteen methods and modes for the next. *Weaker half*: by the baseline's *other* seeds, because people who are weak
by the very scores they are compared with gain by luck. *Smallest detectable*: a gain of this size would have passed
the corrected test with a probability of 80 %.
"""
_FIGURES = {
    "trade": "Gain against what is left of the leakage; every point is a method, a mode and a weight. Points to the "
    "left of the line at one leak less than the uncensored network; points above zero decode new people better.",
    "people": "Every person's gain with the setting that all others like best, against the score without censoring; "
    "bars are standard errors over seeds. If censoring helped the weak most, points would rise to the left.",
    "gain": "Gain against weight, with 95 % intervals over people and seeds, one weight at a time and not corrected.",
    "leakage": "What is left of the leakage against the weight: 1 is the uncensored network, 0 is chance.",
}


def as_page(tables):
    """Write the page of the documentation around the tables.

    Parameters
    ----------
    tables : dict of str to DataFrame
        As for :func:`as_markdown`, whose text the page includes from ``results/censoring.md``.

    Returns
    -------
    text : str
        Markdown with figures of ``_static``.
    """
    parts = [
        _INTRO,
        _figure("trade"),
        _figure("people"),
        "```{include} results/censoring.md\n```",
        "## Weights",
    ]
    for recording in dict.fromkeys(tables["answers"]["recording"]):
        parts += [f"### {recording}", _figure("gain", recording), _figure("leakage", recording)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _figure(name, recording=None):
    file = "_".join(["censoring", name, *([recording] if recording else [])])
    return f"```{{figure}} _static/{file}.png\n:width: 100%\n\n{_FIGURES[name]}\n```"


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
