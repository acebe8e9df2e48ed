"""The table of a transfer study: how well the ensemble decodes new subjects, by target data."""

import pandas as pd

from braindecode_censor.decoder.expectation import paired_interval
from braindecode_censor.search.family import BASELINE
from studies.transfer.scores import ALL_SEEDS, RULE_LABELS
from studies.transfer.target_data import label_of, order_of

__all__ = ["as_markdown", "compare_targets"]

_MEANS = {
    "paper": "paper's protocol",
    "classical": "best classical",
    "best_one": "best candidate",
    "best_three": "best three",
    "mean": "ensemble",
    "lower_quartile": "lower quartile",
    "worst": "worst",
}


def compare_targets(scores, cost=None):
    """Return a row per recording and target data that compares the ensemble with other decoders, paired over subjects.

    The paper's protocol has no target data in any row.
    """
    means = scores.groupby(["recording", "target", "decoder", "subject"])["score"].mean().dropna()
    classical = set(scores.loc[scores["kind"] == "classical", "decoder"])
    rows = []
    for recording in dict.fromkeys(scores["recording"]):
        paper = means.get((recording, "none", BASELINE))
        for target in order_of(scores["target"]):
            ensemble = means.get((recording, target, RULE_LABELS["greedy"]))
            if ensemble is None:
                continue
            row = {
                "recording": recording,
                "target": target,
                "subjects": len(ensemble),
                "mean": ensemble.mean(),
            }
            row |= {"lower_quartile": ensemble.quantile(0.25), "worst": ensemble.min()}
            combined = {
                "best_one": RULE_LABELS["pick"],
                "best_three": RULE_LABELS["top"],
                "together": ALL_SEEDS,
            }
            for name, decoder in combined.items():
                by_subject = means.get((recording, target, decoder))
                row |= {} if by_subject is None else {name: by_subject.mean()}
            if paper is not None:
                row |= {
                    "paper": paper.mean(),
                    "n_gain": int((ensemble > paper.reindex(ensemble.index)).sum()),
                }
                row |= _gain("gain", ensemble, paper)
            by_decoder = means.loc[recording, target].groupby("decoder").mean()
            by_decoder = by_decoder[by_decoder.index.isin(classical)]
            if len(by_decoder):
                best = by_decoder.idxmax()
                row |= {"classical": by_decoder.max(), "classical_name": best}
                row |= _gain("over_classical", ensemble, means.loc[recording, target, best])
            rows.append(row)
    table = pd.DataFrame(rows)
    if cost is not None:
        total = cost.groupby("recording")[["trainings", "seconds"]].sum()
        table["trainings"] = table["recording"].map(total["trainings"])
        table["minutes"] = table["recording"].map(total["seconds"]) / 60
    return table


def _gain(name, scores, baseline):
    both = scores.index.intersection(baseline.index)
    gain = paired_interval(scores[both], baseline[both], 0.95)
    return {name: gain["mean"], f"{name}_low": gain["low"], f"{name}_high": gain["high"]}


def as_markdown(table):
    """Return the table in Markdown."""
    header = ["recording", "target data", *_MEANS.values(), "gain over the protocol", "subjects who gain"]
    header += ["gain over the classical one", "all seeds together"]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for row in table.to_dict("records"):
        means = {name: _number(row, name) for name in _MEANS}
        if means["classical"]:
            means["classical"] += f" {row['classical_name']}"
        n_gain = "" if pd.isna(row.get("n_gain")) else f"{row['n_gain']:.0f} of {row['subjects']}"
        cells = [row["recording"], label_of(row["target"]), *means.values(), _interval(row, "gain"), n_gain]
        cells += [_interval(row, "over_classical"), _number(row, "together")]
        lines.append(f"| {' | '.join(cells)} |")
    if "trainings" in table:
        total = table.groupby("recording", sort=False)[["trainings", "minutes"]].first()
        parts = [f"{name} {row.trainings:.0f} in {row.minutes:.1f} minutes" for name, row in total.iterrows()]
        lines += ["", f"Trainings: {'; '.join(parts)}."]
    return "\n".join(lines) + "\n"


def _number(row, name):
    return "" if pd.isna(row.get(name)) else f"{row[name]:.3f}"


def _interval(row, name):
    if pd.isna(row.get(name)):
        return ""
    return f"{row[name]:+.3f} ({row[f'{name}_low']:+.3f} to {row[f'{name}_high']:+.3f})"
