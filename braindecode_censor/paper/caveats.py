"""What a reader of the results should be warned of, in sentences."""

from scipy.stats import spearmanr

from braindecode_censor.paper.selection import SELECTED
from braindecode_censor.paper.wording import signed

__all__ = ["find_warnings"]

_FEW = 10  # trials of a class of a subject: its accuracy moves in steps of a tenth
_SETTINGS = 4  # below that, a rank correlation says nothing


def find_warnings(table, scores, cells=None):
    """Return what should make a reader careful."""
    found = [*_about_trials(cells), *_about_gain(table.loc[SELECTED]), *_about_agreement(scores)]
    missing = int(scores["score"].isna().sum())
    if missing:
        found.append(f"{missing} of {len(scores)} test scores are not a number and were left out.")
    return found


def _about_trials(cells):
    if cells is None:
        return []
    few = cells[cells["trials"] < _FEW]
    if few.empty:
        return []
    names = ", ".join(f"subject {r.subject} class {r.label}: {r.trials}" for r in few.head(6).itertuples())
    more = f" and {len(few) - 6} more" if len(few) > 6 else ""
    return [
        f"Too few trials: {len(few)} of {len(cells)} cells of subject and class hold fewer than {_FEW} ({names}"
        f"{more}). Their scores are coarse, and conditional censoring has little to compare within a class."
    ]


def _about_gain(row):
    found = []
    low, high = signed(row["low"]), signed(row["high"])
    interval = f"{signed(row['gain'])} (95 % interval over subjects {low} to {high})"
    if row["gain"] <= 0:
        found.append(f"No gain: the selected decoder is not better than the baseline, {interval}.")
    elif row["low"] <= 0:
        found.append(f"No certain gain: the interval of the gain holds zero, {interval}.")
    if row["seeds"] < 2:
        found.append("One seed: it cannot be told whether another seed would have given the same.")
    elif row["gain"] > 0 and not row["distinguishable"]:
        found.append("The gain is not distinguishable from the spread of seeds.")
    return found


def _about_agreement(scores):
    """Compare the orders into which validation and test put the settings."""
    means = scores.groupby("setting")[["score_valid", "score"]].mean().dropna()
    if len(means) < _SETTINGS or means.nunique().min() < 2:
        return []
    rho = float(spearmanr(means["score_valid"], means["score"]).statistic)
    if rho > 0.3:
        return []
    return [
        f"Validation and test disagree: over {len(means)} settings their scores correlate by {rho:+.2f} (Spearman), "
        "so choosing by validation is little better than drawing lots here."
    ]
