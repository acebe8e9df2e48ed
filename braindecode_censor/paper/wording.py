"""What came out, in words and in a table for a terminal: first the sentences, then numbers that fit 100 columns."""

from textwrap import fill

import pandas as pd

from braindecode_censor.paper.selection import SELECTED

__all__ = ["describe_result", "narrow_table", "sentences", "signed"]

_COLUMNS = {
    "setting": "setting",
    "mean": "mean",
    "lower_quartile": "quartile",
    "worst": "worst",
    "gain": "gain",
}
_LONGEST = 28  # letters of a setting's name


def sentences(table, n_people, chance, leakage=None):
    """Say what was selected and what it is worth."""
    row, baseline = table.loc[SELECTED], table.loc["baseline"]
    interval = f"95 % interval over {n_people} people {signed(row['low'])} to {signed(row['high'])}"
    found = [
        f"Selected: {row['setting']}.",
        f"On people it has never seen it decodes with a balanced accuracy of {row['mean']:.3f}; without censoring it "
        f"is {baseline['mean']:.3f}, and chance is {chance:.3f}.",
        f"Gain over the baseline: {signed(row['gain'])} ({interval}, p = {row['p']:.3f}); in the lower quartile "
        f"{signed(row['gain_lower_quartile'])}.",
        _about_seeds(int(row["seeds"]), row["distinguishable"]),
    ]
    if leakage is not None:
        before, after, guess = leakage[["baseline", "selected", "chance"]]
        found.append(
            f"Leakage: from the latent code a fresh probe names the person in {before:.0%} of the trials before "
            f"censoring and in {after:.0%} after it (chance {guess:.0%})."
        )
    if "riemann" in table.index:
        classical = table.loc["riemann", "mean"]
        found.append(f"A classical reference, covariances in the tangent space, reaches {classical:.3f}.")
    return found


def describe_result(result):
    """Say what came out of an experiment, for a terminal."""
    n_people = result.scores["subject"].nunique()
    said = sentences(result.table, n_people, result.chance, result.leakage)
    lines = [*(fill(sentence, 100) for sentence in said), "", narrow_table(result.table)]
    lines += ["", f"Results: {result.out}"] + ([f"Report:  {result.report}"] if result.report else [])
    return "\n".join(lines)


def narrow_table(table):
    """Return the table of results in at most 100 columns."""
    shown = table[list(_COLUMNS)].rename(columns=_COLUMNS).assign(p=table["p"])
    shown["setting"] = [_cut(name) for name in shown["setting"]]
    numbers = shown.columns.drop("setting")
    shown[numbers] = shown[numbers].map(_number)
    rows = [["decoder", *shown.columns], *([name, *row] for name, row in zip(shown.index, shown.to_numpy()))]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    aligned = [
        [
            text.ljust(width) if k < 2 else text.rjust(width)
            for k, (text, width) in enumerate(zip(row, widths))
        ]
        for row in rows
    ]
    return "\n".join("  ".join(row).rstrip() for row in aligned)


def signed(value):
    """Return a difference with its sign."""
    rounded = round(float(value), 3)
    return f"{rounded:+.3f}" if rounded else "0.000"


def _about_seeds(seeds, distinguishable):
    if seeds < 2:
        return "One seed cannot tell whether that is more than the luck of the seed."
    told = "more" if distinguishable else "not more"
    return f"Over {seeds} seeds that is {told} than the luck of the seed."


def _number(value):
    return "–" if pd.isna(value) else f"{round(float(value), 3) + 0.0:.3f}"


def _cut(name):
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
