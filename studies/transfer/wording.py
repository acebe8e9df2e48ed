"""The family on people held out, in words and in a table for a terminal."""

from textwrap import fill

import pandas as pd

from braindecode_censor.paper.wording import signed
from studies.transfer.tiers_table import TIERS

__all__ = ["describe_transfer", "sentence"]

_COLUMNS = {"paper": "paper", "classical": "classical", "best_one": "best one", "mean": "family"}
_LEGEND = (
    "paper: the paper's protocol, which uses nothing of the person; classical: the best candidate without a network; "
    "best one: the candidate that does best on other people; family: the average of candidates, weighted by other "
    "people. Gain: of the family over the paper's protocol, with a 95 % interval over people."
)


def sentence(table, chance):
    """Say what the family is worth for a new person."""
    by_tier = table.set_index("tier")
    tier = "unlabeled" if "unlabeled" in by_tier.index else by_tier.index[0]
    row = by_tier.loc[tier]
    told = (
        f"A person whom the decoder has never seen is decoded with a balanced accuracy of {row['mean']:.3f} on average "
        f"over {row['people']} people, each held out in turn ({TIERS[tier]}; chance is {chance:.3f})."
    )
    if pd.notna(row.get("gain")):
        told += (
            f" That is {signed(row['gain'])} over the paper's protocol (95 % interval {signed(row['gain_low'])} to "
            f"{signed(row['gain_high'])}); {row['gainers']:.0f} of {row['people']} people gain."
        )
    return told


def describe_transfer(table, chance, out, report=None):
    """Say what came out, for a terminal."""
    rows = [["known of the person", *_COLUMNS.values(), "gain"]]
    for row in table.to_dict("records"):
        numbers = ["–" if pd.isna(row.get(name)) else f"{row[name]:.3f}" for name in _COLUMNS]
        gain = "–"
        if pd.notna(row.get("gain")):
            gain = f"{signed(row['gain'])} ({signed(row['gain_low'])} to {signed(row['gain_high'])})"
        rows.append([TIERS[row["tier"]], *numbers, gain])
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    places = [f"Results: {out}"] + ([f"Report:  {report}"] if report else [])
    return "\n".join([fill(sentence(table, chance), 100), "", *lines, "", fill(_LEGEND, 100), "", *places])
