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
    """Return the 25th percentile with linear interpolation.

    Parameters
    ----------
    values : array-like of shape (n,)
        Scores.

    Returns
    -------
    quartile : float
        NaN if any value is.

    Examples
    --------
    >>> lower_quartile([0.5, 0.6, 0.7, 0.8])
    0.575
    """
    return float(np.percentile(np.asarray(values, dtype=float), 25))


#: How a rule sums up the folds -> function of their scores.
SUMMARIES = {"quartile": lower_quartile, "mean": lambda values: float(np.mean(values))}


def choose(scores, rule="paper"):
    """Choose one setting for all folds.

    Parameters
    ----------
    scores : DataFrame
        One row per setting, seed and test subject, with the columns ``method``, ``setting``, ``seed``,
        ``subject``, ``score`` and ``score_valid``.
    rule : str
        A key of ``RULES``.

    Returns
    -------
    setting : str
        Ties go to the one that comes first in `scores`. Scores are averaged over seeds before folds are
        summed up.
    """
    column, summary, with_baseline, _ = RULES[check_choice("rule", rule, RULES)]
    if not with_baseline:
        scores = scores[scores["method"] != "baseline"]
    if scores.empty:
        raise ValueError(f"rule={rule!r} has nothing to choose from: no censored setting has scores.")
    folds = scores.groupby(["setting", "subject"], sort=False)[column].mean()
    return folds.groupby("setting", sort=False).agg(SUMMARIES[summary]).idxmax()


def choose_nested(inner, tested=None):
    """Choose a setting for every test subject by trainings that never saw that subject.

    Parameters
    ----------
    inner : DataFrame
        One row per setting, seed, test subject and validation subject, with the columns ``method``,
        ``setting``, ``subject`` (who is left out), ``valid_subject`` and ``score_valid``.
    tested : collection of str or None
        Settings that have test scores, if some have none because a training of theirs failed.

    Returns
    -------
    choice : Series
        Setting by subject: the highest 25th percentile over the validation subjects of the outer fold;
        settings of which a training failed are passed over, and where none is left the baseline is taken.
    """
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
    """Return the best settings of each method.

    Parameters
    ----------
    scores : DataFrame
        With the columns ``method``, ``setting`` and `column`.
    top : int
        How many of each method, over all its modes and options.
    column : str
        What to sort by, averaged over the rows of a setting; failed trainings are NaN and come last.

    Returns
    -------
    settings : list of str
        Best first within each method; ties in the order of `scores`. Settings that only failed are left out.
    """
    means = scores.groupby(["method", "setting"], sort=False)[column].mean().dropna()
    found = []
    for _, group in means.groupby("method", sort=False):
        ranked = group.sort_values(ascending=False, kind="stable")
        found += [setting for _, setting in ranked.index[:top]]
    return found


def scores_of_choice(scores, choice):
    """Return the rows that a choice stands for.

    Parameters
    ----------
    scores : DataFrame
        As in :func:`choose`.
    choice : str or Series
        One setting, or one per subject.

    Returns
    -------
    rows : DataFrame of shape (n_subjects, n_seeds)
        Test scores.
    """
    if isinstance(choice, pd.Series):
        wanted = scores["subject"].map(choice)
        scores = scores[scores["setting"] == wanted]
    else:
        scores = scores[scores["setting"] == choice]
    return scores.pivot_table(index="subject", columns="seed", values="score", sort=True)
