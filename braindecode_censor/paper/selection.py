"""Selection rules of the paper, and the table of results that compares what they select."""

import numpy as np
import pandas as pd

from braindecode_censor._check import check_choice
from braindecode_censor.paper.statistics import compare, lower_quartile, seed_spread
from braindecode_censor.penalties.measures import MEASURES

__all__ = [
    "BASELINE",
    "SELECTED",
    "SELECTION_RULES",
    "apply_rules",
    "best_of_each_method",
    "choose",
    "decoders_of",
    "scores_of",
    "summarise",
]

#: Method and configuration without censoring.
BASELINE = "baseline"
#: Row of the table of results that holds what the paper's rule selects.
SELECTED = "AutoTransfer (paper)"
#: Rule -> column that it reads, summary of a configuration's folds, whether the baseline is a candidate, description.
SELECTION_RULES = {
    "paper": (
        "score_valid",
        lower_quartile,
        False,
        "highest lower quartile of validation accuracy (a test subject trains and validates other folds)",
    ),
    "paper+baseline": ("score_valid", lower_quartile, True, "the same, with the baseline as a candidate"),
    "mean": ("score_valid", np.mean, False, "highest mean of validation accuracy"),
    "oracle": (
        "score",
        lower_quartile,
        True,
        "highest lower quartile of TEST accuracy, which no rule can know: a ceiling of the lower quartile. Its "
        "mean may be lower than that of other rows",
    ),
}


def choose(scores, rule="paper"):
    """Return the configuration that a rule selects for all folds."""
    column, summary, with_baseline, _ = SELECTION_RULES[check_choice("rule", rule, SELECTION_RULES)]
    if not with_baseline:
        scores = scores[scores["method"] != BASELINE]
    if scores.empty:
        raise ValueError(f"rule={rule!r} has nothing to choose from: no censored configuration has scores.")
    folds = scores.groupby(["setting", "subject"], sort=False)[column].mean()
    return folds.groupby("setting", sort=False).agg(lambda values: float(summary(values))).idxmax()


def apply_rules(scores):
    """Return the configuration that every rule selects."""
    candidates = scores[scores["method"].isin([BASELINE, *MEASURES])]
    return {rule: choose(candidates, rule) for rule in SELECTION_RULES}


def best_of_each_method(scores, top=3, column="score_valid"):
    """Return the names of the best configurations of each method."""
    means = scores.groupby(["method", "setting"], sort=False)[column].mean().dropna()
    names = []
    for _, group in means.groupby("method", sort=False):
        ranked = group.sort_values(ascending=False, kind="stable")
        names += ranked.index.get_level_values("setting")[:top].tolist()
    return names


def scores_of(scores, setting):
    """Return the test scores of a configuration, one row per subject and one column per seed."""
    rows = scores[scores["setting"] == setting]
    return rows.pivot_table(index="subject", columns="seed", values="score", sort=True)


def decoders_of(scores, selected_by_rule):
    """Return which configuration every decoder of a comparison is: baseline, methods, rules, other pipelines."""
    decoders = {BASELINE: BASELINE}
    for method in MEASURES:
        rows = scores[(scores["method"] == method) & scores["score_valid"].notna()]
        if len(rows):
            decoders[method] = choose(rows)
    decoders |= {f"AutoTransfer ({rule})": setting for rule, setting in selected_by_rule.items()}
    references = scores.loc[~scores["method"].isin([BASELINE, *MEASURES]), "setting"]
    return decoders | {name: name for name in references.unique()}


def summarise(scores, selected_by_rule):
    """Return the table of results, one row per decoder."""
    baseline = scores_of(scores, BASELINE)
    rows = {
        name: _summary_row(setting, scores_of(scores, setting), baseline)
        for name, setting in decoders_of(scores, selected_by_rule).items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("decoder")


def _summary_row(setting, scores, baseline):
    baseline = baseline[scores.columns]  # the same seeds
    means, baseline_means = scores.mean(axis=1), baseline.mean(axis=1)
    return {
        "setting": setting,
        "mean": means.mean(),
        "lower_quartile": lower_quartile(means),
        "worst": means.min(),
        "seeds": scores.shape[1],
        **compare(means, baseline_means),
        "gain_lower_quartile": lower_quartile(means) - lower_quartile(baseline_means),
        **seed_spread(scores, baseline),
    }
