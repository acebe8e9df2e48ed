"""The table of tiers: what decodes the next person how well, by what is known of the person, and at what cost."""

import pandas as pd

from braindecode_censor.search.expectation import paired_interval
from braindecode_censor.search.family import BASELINE

__all__ = ["TIERS", "as_markdown", "tiers_table"]

#: What may be known of the person -> how it is called in tables.
TIERS = {
    "none": "nothing known",
    "unlabeled-20p": "20 % unlabelled",
    "stream": "causal stream",
    "unlabeled": "all unlabelled",
    "labeled-5": "5 labelled a class",
}
_CLASSIFIER = "family, averaged"


def tiers_table(scores, cost=None):
    """Compare the classifier, tier by tier, with the paper's protocol and with the best classical decoder.

    Parameters
    ----------
    scores : DataFrame
        From ``run_transfer.py``: columns recording, target, decoder, kind, person, seed and score.
    cost : DataFrame or None
        Columns recording, trainings and seconds, of all seeds.

    Returns
    -------
    table : DataFrame
        One row per recording and decoder: ``people``, ``mean``, ``lower_quartile`` and ``worst`` over people, averaged
        over seeds; ``gain`` over the paper's protocol with ``low`` and ``high``, a 95 % interval paired over people;
        ``trainings`` and ``minutes`` of all tiers of the recording together. The best classical decoder is the one with
        the best mean over the people tested, with all their unlabelled trials, which flatters it.
    """
    by_person = scores.groupby(["recording", "target", "decoder", "person"])["score"].mean()
    classical = scores[(scores["kind"] == "classical") & (scores["target"] == "unlabeled")]
    rows = []
    for recording in dict.fromkeys(scores["recording"]):
        shown = {"paper protocol": ("none", BASELINE)}
        means = classical[classical["recording"] == recording].groupby("decoder")["score"].mean()
        if len(means):
            shown["best classical, all unlabelled"] = ("unlabeled", means.idxmax())
        shown |= {f"classifier, {label}": (tier, _CLASSIFIER) for tier, label in TIERS.items()}
        found = {label: by_person.get((recording, *key)) for label, key in shown.items()}
        plain = found["paper protocol"]
        for label, mine in found.items():
            if mine is None or mine.dropna().empty:
                continue
            mine = mine.dropna()
            row = {"recording": recording, "decoder": label, "people": len(mine), "mean": mine.mean()}
            row |= {"lower_quartile": mine.quantile(0.25), "worst": mine.min()}
            if plain is not None and label != "paper protocol":
                both = mine.index.intersection(plain.dropna().index)
                gain = paired_interval(mine[both], plain[both], 0.95)
                row |= {"gain": gain["mean"], "low": gain["low"], "high": gain["high"]}
            rows.append(row)
    table = pd.DataFrame(rows)
    if cost is not None:
        spent = cost.groupby("recording")[["trainings", "seconds"]].sum()
        table["trainings"] = table["recording"].map(spent["trainings"])
        table["minutes"] = table["recording"].map(spent["seconds"]) / 60
    return table


def as_markdown(table):
    """Write the table in Markdown.

    Parameters
    ----------
    table : DataFrame
        From :func:`tiers_table`.

    Returns
    -------
    text : str
        With a line about the cost of every recording.
    """
    header = ("recording", "decoder", "mean", "lower quartile", "worst", "gain over the paper's protocol")
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for row in table.itertuples():
        gain = getattr(row, "gain", None)
        told = "" if pd.isna(gain) else f"{gain:+.3f} ({row.low:+.3f} to {row.high:+.3f})"
        numbers = (f"{number:.3f}" for number in (row.mean, row.lower_quartile, row.worst))
        lines.append(f"| {' | '.join((row.recording, row.decoder, *numbers, told))} |")
    if "trainings" in table:
        spent = table.groupby("recording", sort=False)[["trainings", "minutes"]].first()
        told = [f"{name} {row.trainings:.0f} in {row.minutes:.1f} minutes" for name, row in spent.iterrows()]
        lines += ["", f"Trainings: {'; '.join(told)}."]
    return "\n".join(lines) + "\n"
