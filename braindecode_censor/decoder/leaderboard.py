"""The leaderboard: held-out scores of every candidate and of the three ways of combining them."""

import numpy as np
import pandas as pd

__all__ = ["COMBINATIONS", "make_leaderboard"]

_COLUMNS = ["candidate", "mean", "lower_quartile", "weight", "seconds", "trainings", "subjects", "kind"]

#: Rule of combination -> its name on the leaderboard.
COMBINATIONS = {"greedy": "greedy ensemble", "top": "average of the best 3", "pick": "best candidate alone"}


def make_leaderboard(result, weights, taught=None):
    """Return the leaderboard of a search.

    Parameters
    ----------
    result : SearchResult
        Held-out probabilities and costs.
    weights : dict of str to float
        Ensemble weight of every candidate.
    taught : ndarray of shape (n_subjects,) or None
        Nested scores of the taught ensemble.

    Returns
    -------
    leaderboard : pandas.DataFrame
        Columns ``candidate``, ``mean`` and ``lower_quartile`` (balanced accuracy over held-out subjects), ``weight``
        in the ensemble, ``seconds``, ``trainings``, ``subjects`` (the number tested) and ``kind``, which
        marks the row that is the decoder, and rows whose scores are not of all subjects. Scores of
        combinations are nested: their weights do not depend on the subject tested. The best come first.
    """
    rows = []
    for rule, name in COMBINATIONS.items():
        scores = result.heldout.nested_scores(result.finalists, rule)
        rows.append({"candidate": name, "kind": "combination", **_summarise(scores), "weight": np.nan})
    if taught is not None:
        rows.append({"candidate": "taught", "kind": "combination", **_summarise(taught), "weight": np.nan})
    for name, candidate in result.candidates.items():
        if not result.heldout.probabilities.get(name):
            continue
        row = {"candidate": name, "kind": candidate.kind, **_summarise(result.heldout.scores(name))}
        row |= {"weight": weights.get(name, 0.0), "seconds": result.seconds[name]}
        rows.append({**row, "trainings": result.n_trainings[name]})
    rows[0]["kind"] = "this decoder"
    rows[0]["seconds"], rows[0]["trainings"] = sum(result.seconds.values()), sum(result.n_trainings.values())
    frame = pd.DataFrame(rows)[_COLUMNS]
    frame.loc[frame["subjects"] < len(result.heldout.labels), "kind"] += ", incomplete"
    return frame.sort_values("mean", ascending=False, kind="stable", ignore_index=True)


def _summarise(scores):
    scores = scores[np.isfinite(scores)]
    if not len(scores):
        return {"mean": np.nan, "lower_quartile": np.nan, "subjects": 0}
    return {"mean": scores.mean(), "lower_quartile": np.quantile(scores, 0.25), "subjects": len(scores)}
