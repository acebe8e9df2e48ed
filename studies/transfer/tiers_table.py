"""The table of tiers: what decodes the next person how well, by what is known of the person, and at what cost."""

import pandas as pd

from braindecode_censor.search.expectation import paired_interval
from braindecode_censor.search.family import BASELINE
from studies.transfer.scores import RULES, TOGETHER

__all__ = ["TIERS", "as_markdown", "tiers_table"]

#: What may be known of the person -> how it is called in tables.
TIERS = {
    "none": "nothing known",
    "unlabeled-20p": "20 % unlabelled",
    "stream": "causal stream",
    "unlabeled": "all unlabelled",
    "labeled-5": "5 labelled a class",
}


def tiers_table(scores, cost=None):
    """Compare the family, tier by tier, with the paper's protocol and with the best classical decoder."""
    by_person = scores.groupby(["recording", "target", "decoder", "subject"])["score"].mean().dropna()
    classical = set(scores.loc[scores["kind"] == "classical", "decoder"])
    rows = []
    for recording in dict.fromkeys(scores["recording"]):
        plain = by_person.get((recording, "none", BASELINE))
        for tier in TIERS:
            mine = by_person.get((recording, tier, RULES["greedy"]))
            if mine is None:
                continue
            row = {"recording": recording, "tier": tier, "people": len(mine), "mean": mine.mean()}
            row |= {"lower_quartile": mine.quantile(0.25), "worst": mine.min()}
            others = {"best_one": RULES["pick"], "best_three": RULES["top"], "together": TOGETHER}
            for name, decoder in others.items():
                other = by_person.get((recording, tier, decoder))
                row |= {} if other is None else {name: other.mean()}
            if plain is not None:
                row |= {"paper": plain.mean(), "gainers": int((mine > plain.reindex(mine.index)).sum())}
                row |= _gain("gain", mine, plain)
            means = by_person.loc[recording, tier].groupby("decoder").mean()
            means = means[means.index.isin(classical)]
            if len(means):
                row |= {"classical": means.max(), "classical_name": means.idxmax()}
                best = by_person.loc[recording, tier, means.idxmax()]
                row |= _gain("over_classical", mine, best)
            rows.append(row)
    table = pd.DataFrame(rows)
    if cost is not None:
        spent = cost.groupby("recording")[["trainings", "seconds"]].sum()
        table["trainings"] = table["recording"].map(spent["trainings"])
        table["minutes"] = table["recording"].map(spent["seconds"]) / 60
    return table


def _gain(name, mine, other):
    both = mine.index.intersection(other.index)
    found = paired_interval(mine[both], other[both], 0.95)
    return {name: found["mean"], f"{name}_low": found["low"], f"{name}_high": found["high"]}


def as_markdown(table):
    """Write the table in Markdown."""
    header = ["recording", "known of the person", "paper's protocol", "best classical", "best one"]
    header += ["best three", "family, averaged", "lower quartile", "worst", "gain over the protocol"]
    header += ["people who gain", "gain over the classical one", "all seeds together"]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for row in table.to_dict("records"):
        shown = ("paper", "classical", "best_one", "best_three", "mean", "lower_quartile", "worst")
        means = [_number(row, name) for name in shown]
        if row.get("classical_name") and means[1]:
            means[1] += f" {row['classical_name']}"
        told = [row["recording"], TIERS[row["tier"]], *means]
        gainers = "" if pd.isna(row.get("gainers")) else f"{row['gainers']:.0f} of {row['people']}"
        told += [_interval(row, "gain"), gainers, _interval(row, "over_classical"), _number(row, "together")]
        lines.append(f"| {' | '.join(told)} |")
    if "trainings" in table:
        spent = table.groupby("recording", sort=False)[["trainings", "minutes"]].first()
        told = [f"{name} {row.trainings:.0f} in {row.minutes:.1f} minutes" for name, row in spent.iterrows()]
        lines += ["", f"Trainings: {'; '.join(told)}."]
    return "\n".join(lines) + "\n"


def _number(row, name):
    return "" if pd.isna(row.get(name)) else f"{row[name]:.3f}"


def _interval(row, name):
    if pd.isna(row.get(name)):
        return ""
    return f"{row[name]:+.3f} ({row[f'{name}_low']:+.3f} to {row[f'{name}_high']:+.3f})"
