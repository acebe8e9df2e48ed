"""Scores of the family on people held out: person by person, combined, and side by side in a table."""

import numpy as np
import pandas as pd

from braindecode_censor.search.ensemble import choose_weights
from braindecode_censor.search.expectation import paired_interval
from braindecode_censor.search.family import BASELINE

__all__ = ["RULES", "as_markdown", "score_people", "summarise", "weigh"]

#: Rule of combination -> its name in tables.
RULES = {"greedy": "family, averaged", "top": "best 3, averaged", "pick": "best one"}


def score_people(heldout, kinds):
    """Score candidates and combinations, person by person.

    Parameters
    ----------
    heldout : dict of str to HeldOut
        Tier -> what every candidate says.
    kinds : dict of str to str
        Candidate -> network or classical.

    Returns
    -------
    scores : DataFrame
        Columns target, person, decoder, kind and score.
    """
    rows = []
    for target, found in heldout.items():
        every = {name: (kind, found.scores(name)) for name, kind in kinds.items()}
        for rule, name in RULES.items():
            every[name] = "combination", found.nested_scores(list(kinds), rule)
        rows += [
            (target, person, name, kind, score)
            for name, (kind, scores) in every.items()
            for person, score in enumerate(scores)
        ]
    return pd.DataFrame(rows, columns=["target", "person", "decoder", "kind", "score"])


def weigh(heldout, kinds):
    """Return how much every candidate counts in the average for tomorrow's person.

    Parameters
    ----------
    heldout : dict of str to HeldOut
        Tier -> what every candidate says.
    kinds : dict of str to str
        Candidate -> network or classical.

    Returns
    -------
    weights : DataFrame
        Columns target, decoder, kind and weight; the weights of a tier sum to one.
    """
    rows = []
    for target, found in heldout.items():
        weights = choose_weights(*found.of_population(list(kinds)))
        rows += [(target, *item, weight) for item, weight in zip(kinds.items(), weights)]
    return pd.DataFrame(rows, columns=["target", "decoder", "kind", "weight"])


def summarise(scores):
    """Compare the family with the paper's protocol and with the best classical decoder, tier by tier.

    Parameters
    ----------
    scores : DataFrame
        Of all recordings, tiers and seeds.

    Returns
    -------
    table : DataFrame
        One row per recording, tier and decoder: mean and lower quartile over people, averaged over seeds, and the gain
        over the paper's protocol, which knows nothing of the person in any tier, with its 95 % interval over people.
    """
    rows = []
    by_person = scores.groupby(["recording", "target", "decoder", "kind", "person"])["score"].mean()
    for (recording, target), part in by_person.groupby(level=["recording", "target"]):
        means = part.groupby(level=["decoder", "kind"]).mean()
        classical = means[means.index.get_level_values("kind") == "classical"]
        shown = {} if classical.empty else {"best classical": classical.idxmax()[0]}
        shown |= {name: name for name in RULES.values()}
        plain = _people(by_person, recording, "none", BASELINE)
        if plain is not None:
            shown = {"paper protocol": None, **shown}
        for label, decoder in shown.items():
            mine = plain if decoder is None else _people(by_person, recording, target, decoder)
            row = {"recording": recording, "target": target, "decoder": label, "people": len(mine)}
            row |= {"mean": mine.mean(), "lower_quartile": mine.quantile(0.25), "worst": mine.min()}
            if plain is not None and decoder is not None:
                gain = paired_interval(mine, plain, 0.95)
                row |= {"gain": gain["mean"], "low": gain["low"], "high": gain["high"]}
            rows.append(row)
    return pd.DataFrame(rows)


def _people(by_person, recording, target, decoder):
    try:
        return by_person.loc[recording, target, decoder].droplevel("kind").sort_index().dropna()
    except KeyError:
        return None


def as_markdown(table):
    """Return the table as Markdown.

    Parameters
    ----------
    table : DataFrame
        From :func:`summarise`.

    Returns
    -------
    text : str
        With a header.
    """
    lines = [
        "| recording | known of the person | decoder | mean | lower quartile | gain over the paper's protocol |",
        "|---|---|---|---|---|---|",
    ]
    for row in table.itertuples():
        gain = getattr(row, "gain", np.nan)
        told = "" if np.isnan(gain) else f"{gain:+.3f} ({row.low:+.3f} to {row.high:+.3f})"
        lines.append(
            f"| {row.recording} | {row.target} | {row.decoder} | {row.mean:.3f} | {row.lower_quartile:.3f} | {told} |"
        )
    return "\n".join(lines)
