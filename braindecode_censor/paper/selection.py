"""Which setting to trust: the paper's rule, its relatives, and one that never looks at the test subject."""

import numpy as np
import pandas as pd

from braindecode_censor._check import check_choice

__all__ = [
    "NESTED",
    "ORACLE",
    "RULES",
    "SELECTED",
    "SUMMARIES",
    "best_of_each_method",
    "choose",
    "choose_nested",
    "lower_quartile",
]

#: Name of the rule that looks at test scores.
ORACLE = "oracle"
#: Name of the rule that never saw the test subject.
NESTED = "nested"
#: Row of the table of results that holds what the paper's rule selects.
SELECTED = "AutoTransfer (paper)"
#: Rule -> column it looks at, how it sums up the folds, whether the baseline may be chosen, what it is.
RULES = {
    "paper": (
        "score_valid",
        "quartile",
        False,
        "highest 25th percentile of validation accuracy (a test subject trains and validates other folds)",
    ),
    "paper+baseline": ("score_valid", "quartile", True, "the same, and no censoring is a candidate, too"),
    "mean": ("score_valid", "mean", False, "highest mean of validation accuracy"),
    ORACLE: ("score", "quartile", True, "highest 25th percentile of TEST accuracy: unattainable, a ceiling"),
}


def lower_quartile(values):
    """Return the 25th percentile with linear interpolation."""
    return float(np.percentile(np.asarray(values, dtype=float), 25))


#: How a rule sums up the folds -> function of their scores.
SUMMARIES = {"quartile": lower_quartile, "mean": lambda values: float(np.mean(values))}


def choose(scores, rule="paper"):
    """Choose one setting for all folds."""
    column, summary, with_baseline, _ = RULES[check_choice("rule", rule, RULES)]
    if not with_baseline:
        scores = scores[scores["method"] != "baseline"]
    if scores.empty:
        raise ValueError(f"rule={rule!r} has nothing to choose from: no censored setting has scores.")
    folds = scores.groupby(["setting", "subject"], sort=False)[column].mean()
    return folds.groupby("setting", sort=False).agg(SUMMARIES[summary]).idxmax()


def choose_nested(inner, tested=None):
    """Choose a setting for every test subject by trainings that never saw that subject."""
    candidates = inner[inner["method"] != "baseline"]
    if tested is not None:
        candidates = candidates[candidates["setting"].isin(set(tested))]
    # a failed training has no validation subject; its NaN must not vanish
    folds = candidates.groupby(["subject", "setting", "valid_subject"], sort=False, dropna=False)[
        "score_valid"
    ]
    folds = folds.agg(lambda seeds: seeds.mean(skipna=False))
    quartiles = folds.groupby(["subject", "setting"], sort=False).agg(lower_quartile).dropna()
    best = {subject: group.idxmax()[1] for subject, group in quartiles.groupby("subject", sort=False)}
    choice = {subject: best.get(subject, "baseline") for subject in inner["subject"].unique()}
    return pd.Series(choice).rename_axis("subject")


def best_of_each_method(scores, top=3, column="score_valid"):
    """Return the best settings of each method."""
    means = scores.groupby(["method", "setting"], sort=False)[column].mean().dropna()
    found = []
    for _, group in means.groupby("method", sort=False):
        ranked = group.sort_values(ascending=False, kind="stable")
        found += [setting for _, setting in ranked.index[:top]]
    return found


def scores_of_choice(scores, choice):
    """Return the rows that a choice stands for."""
    if isinstance(choice, pd.Series):
        wanted = scores["subject"].map(choice)
        scores = scores[scores["setting"] == wanted]
    else:
        scores = scores[scores["setting"] == choice]
    return scores.pivot_table(index="subject", columns="seed", values="score", sort=True)
