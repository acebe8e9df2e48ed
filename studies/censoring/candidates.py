"""What censoring adds to a candidate of the family, on the same people, pairs and seeds, tier by tier."""

import numpy as np
import pandas as pd

from studies.censoring.gain import correct, describe
from studies.transfer.tiers_table import TIERS

__all__ = ["as_markdown", "censored_table"]


def censored_table(scores):
    """Compare every censored candidate with the same one uncensored."""
    names = ["recording", "target", "decoder", "subject", "seed"]
    by_name = scores.set_index(names)["score"].sort_index()
    rows = []
    for recording, mine in scores.groupby("recording", sort=False):
        decoders = list(dict.fromkeys(mine.loc[mine["kind"] != "combination", "decoder"]))
        for name in decoders:
            base = name.partition("+")[0]
            if base == name or base not in decoders:
                continue
            for tier in (tier for tier in TIERS if tier in set(mine["target"])):
                both = [by_name[recording, tier, each].unstack("seed") for each in (name, base)]
                row = {
                    "recording": recording,
                    "candidate": name,
                    "tier": tier,
                    "without": np.nanmean(both[1]),
                }
                rows.append(row | describe((both[0] - both[1]).to_numpy()))
    table = pd.DataFrame(
        rows, columns=["recording", "candidate", "tier", "without", "gain", "low", "high", "p"]
    )
    table["p"] = table.groupby("recording")["p"].transform(correct)
    return table


def as_markdown(table):
    """Write the table in Markdown, a row per candidate."""
    if table.empty:
        return ""
    tiers = list(dict.fromkeys(table["tier"]))
    header = ["recording", "censored candidate", *(TIERS[tier] for tier in tiers), "smallest corrected p"]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for (recording, candidate), rows in table.groupby(["recording", "candidate"], sort=False):
        known = {row.tier: _cell(row) for row in rows.itertuples()}
        cells = [known.get(tier, "") for tier in tiers]
        lines.append(f"| {recording} | `{candidate}` | {' | '.join(cells)} | {rows['p'].min():.3g} |")
    return "\n".join(lines) + "\n"


def _cell(row):
    gain = f"{row.gain:+.3f}"
    bold = f"**{gain}**" if row.p < 0.05 else gain
    return f"{bold} ({row.low:+.3f} to {row.high:+.3f})"
