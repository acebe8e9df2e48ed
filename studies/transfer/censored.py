"""The gain of a censored candidate over the same one uncensored, on the same subjects, folds and seeds."""

import numpy as np
import pandas as pd

from studies.censoring.gain import correct, describe
from studies.transfer.target_data import label_of, order_of

__all__ = ["as_markdown", "compare_censored"]

_COLUMNS = ["recording", "candidate", "target", "uncensored", "gain", "low", "high", "p"]


def compare_censored(scores):
    """Return a row per censored candidate and target data; p is corrected within a recording."""
    index = ["recording", "target", "decoder", "subject", "seed"]
    by_name = scores.set_index(index)["score"].sort_index()
    rows = []
    for recording, group in scores.groupby("recording", sort=False):
        decoders = list(dict.fromkeys(group.loc[group["kind"] != "combination", "decoder"]))
        for name in decoders:
            base = name.partition("+")[0]
            if base == name or base not in decoders:
                continue
            for target in order_of(group["target"]):
                censored, plain = (by_name[recording, target, each].unstack("seed") for each in (name, base))
                row = {"recording": recording, "candidate": name, "target": target}
                row |= {"uncensored": np.nanmean(plain)}
                rows.append(row | describe((censored - plain).to_numpy()))
    table = pd.DataFrame(rows, columns=_COLUMNS)
    table["p"] = table.groupby("recording")["p"].transform(correct)
    return table


def as_markdown(table):
    """Return the table in Markdown, a row per candidate; empty if there is none."""
    if table.empty:
        return ""
    targets = order_of(table["target"])
    header = ["recording", "censored candidate", *map(label_of, targets), "smallest corrected p"]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for (recording, candidate), rows in table.groupby(["recording", "candidate"], sort=False):
        cells = {row.target: _cell(row) for row in rows.itertuples()}
        texts = " | ".join(cells.get(target, "") for target in targets)
        lines.append(f"| {recording} | `{candidate}` | {texts} | {rows['p'].min():.3g} |")
    return "\n".join(lines) + "\n"


def _cell(row):
    gain = f"{row.gain:+.3f}"
    return f"{f'**{gain}**' if row.p < 0.05 else gain} ({row.low:+.3f} to {row.high:+.3f})"
