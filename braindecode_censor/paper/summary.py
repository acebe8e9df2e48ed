"""The table of results: baseline, methods and rules side by side, with what chance can do stated in it."""

import pandas as pd

from braindecode_censor.paper.selection import (
    NESTED,
    RULES,
    choose,
    choose_nested,
    lower_quartile,
    scores_of_choice,
)
from braindecode_censor.paper.statistics import compare, gain_of_weak_subjects, seed_spread
from braindecode_censor.penalties.measures import MEASURES

__all__ = ["choices", "summarise"]


def choices(scores, inner=None):
    """Apply every rule."""
    ours = scores[scores["method"].isin(["baseline", *MEASURES])]
    chosen = {rule: choose(ours, rule) for rule in RULES}
    if inner is not None:
        chosen[NESTED] = choose_nested(inner, scores["setting"])
    return chosen


def summarise(scores, chosen):
    """Return the table of results."""
    entries = {"baseline": "baseline"}
    for method in MEASURES:
        mine = scores[scores["method"] == method]
        if len(mine):
            entries[method] = choose(mine, "paper")
    entries |= {f"AutoTransfer ({rule})": choice for rule, choice in chosen.items()}
    others = scores[~scores["method"].isin(["baseline", *MEASURES])]
    entries |= {name: name for name in others["setting"].unique()}
    baseline = scores_of_choice(scores, "baseline")
    rows = {
        name: _row(scores_of_choice(scores, choice), choice, baseline) for name, choice in entries.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("decoder")


def _row(found, choice, baseline):
    subjects = found.mean(axis=1)
    name = choice if isinstance(choice, str) else ", ".join(dict.fromkeys(choice))
    row = {"setting": name, "mean": subjects.mean(), "lower_quartile": lower_quartile(subjects)}
    row |= {"worst": subjects.min(), "seeds": found.shape[1]}
    same_seeds = baseline[found.columns]
    row |= compare(subjects, same_seeds.mean(axis=1))
    row["gain_lower_quartile"] = row["lower_quartile"] - lower_quartile(same_seeds.mean(axis=1))
    mean = seed_spread(found, same_seeds)
    quartile = seed_spread(found, same_seeds, lower_quartile)
    row |= {"seed_spread": mean["spread"], "distinguishable": mean["distinguishable"]}
    row |= {
        "seed_spread_lower_quartile": quartile["spread"],
        "distinguishable_lower_quartile": quartile["distinguishable"],
    }
    weak = gain_of_weak_subjects(found, same_seeds)
    return row | {"weak_naive": weak["naive"], "weak_fair": weak["fair"]}
