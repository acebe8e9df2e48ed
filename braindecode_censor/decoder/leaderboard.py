"""The leaderboard: every candidate and the three ways of combining them, by people whom they have not seen."""

import numpy as np
import pandas as pd

__all__ = ["COMBINATIONS", "make_leaderboard"]

_COLUMNS = ["candidate", "mean", "lower_quartile", "weight", "seconds", "trainings", "people", "kind"]

#: Rule of combination -> its name on the leaderboard.
COMBINATIONS = {"greedy": "greedy ensemble", "top": "average of the best 3", "pick": "best candidate alone"}


def make_leaderboard(result, weights):
    """Return the leaderboard of a search.

    Parameters
    ----------
    result : SearchResult
        What was found.
    weights : dict of str to float
        Share of every candidate in the ensemble.

    Returns
    -------
    leaderboard : pandas.DataFrame
        Columns ``candidate``, ``mean`` and ``lower_quartile`` (balanced accuracy over people who were held out),
        ``weight`` in the ensemble, ``seconds``, ``trainings``, ``people`` (how many) and ``kind``. Scores of
        combinations are nested: their weights have not seen the person. A candidate that was dropped on the way stands
        there with the short trainings that it had. The best come first.
    """
    rows = []
    for rule, name in COMBINATIONS.items():
        scores = result.heldout.nested_scores(result.finalists, rule)
        rows.append({"candidate": name, "kind": "combination", **_summarise(scores), "weight": np.nan})
    for name, candidate in result.candidates.items():
        if not result.heldout.found.get(name):
            continue
        row = {"candidate": name, "kind": candidate.kind, **_summarise(result.heldout.scores(name))}
        row |= {"weight": weights.get(name, 0.0), "seconds": result.seconds[name]}
        rows.append({**row, "trainings": result.trainings[name]})
    rows[0]["seconds"], rows[0]["trainings"] = sum(result.seconds.values()), sum(result.trainings.values())
    frame = pd.DataFrame(rows)[_COLUMNS]
    return frame.sort_values("mean", ascending=False, kind="stable", ignore_index=True)


def _summarise(scores):
    known = scores[np.isfinite(scores)]
    if not len(known):
        return {"mean": np.nan, "lower_quartile": np.nan, "people": 0}
    return {"mean": known.mean(), "lower_quartile": np.quantile(known, 0.25), "people": len(known)}
