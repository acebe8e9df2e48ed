"""Results of an experiment in words: sentences, caveats, lines of code, and a table for a terminal."""

from textwrap import fill

from scipy.stats import spearmanr

from braindecode_censor.paper.selection import BASELINE, SELECTED
from braindecode_censor.paper.tables import TableError, read_index

__all__ = ["caveats", "describe_result", "narrow_table", "sentences", "signed", "usage"]

_COLUMNS = ["setting", "mean", "lower_quartile", "worst", "gain", "p"]
_MAX_LETTERS = 28  # of a configuration's name in the terminal
_MIN_TRIALS = 10  # per class and subject; with fewer, an accuracy moves in steps of more than a tenth
_MIN_SETTINGS = 4  # for a rank correlation
_USAGE = """\
from braindecode_censor.paper.probing import load_data, load_decoder

folder = {folder!r}
clf = load_decoder(folder, "{key}")

trials = load_data(folder)  # the dataset of the experiment with the same preprocessing
X = trials.X[trials.subjects == {subject!r}]  # trials × channels × samples; new trials need the same preprocessing
names = {classes!r}
print([names[number] for number in clf.predict(X)])
"""


def sentences(result):
    """Return the result in sentences: the selected configuration, its gain, and its subject leakage."""
    row, baseline = result.table.loc[SELECTED], result.table.loc[BASELINE]
    n_subjects = result.scores["subject"].nunique()
    interval = f"95 % interval over {n_subjects} subjects {signed(row['low'])} to {signed(row['high'])}"
    lines = [
        f"Selected: {row['setting']}.",
        f"On subjects that were not in the training data it reaches a balanced accuracy of {row['mean']:.3f}; without "
        f"censoring it is {baseline['mean']:.3f}, and chance is {result.chance:.3f}.",
        f"Gain over the baseline: {signed(row['gain'])} ({interval}, p = {row['p']:.3f}); in the lower quartile "
        f"{signed(row['gain_lower_quartile'])}.",
    ]
    if row["seeds"] < 2:
        lines.append("One seed cannot show whether the gain exceeds the spread over seeds.")
    else:
        verb = "exceeds" if row["distinguishable"] else "does not exceed"
        lines.append(f"Over {int(row['seeds'])} seeds the gain {verb} the spread over seeds.")
    if result.leakage is not None:
        before, after, chance = result.leakage[["baseline", "selected", "chance"]]
        lines.append(
            f"Subject leakage: a fresh probe on the latent code names the subject in {before:.0%} of the trials "
            f"without censoring and in {after:.0%} with it (chance {chance:.0%})."
        )
    if "riemann" in result.table.index:
        accuracy = result.table.loc["riemann", "mean"]
        lines.append(f"A classical reference, covariances in the tangent space, reaches {accuracy:.3f}.")
    return lines


def caveats(result, cells=None):
    """Return reasons to read the results with care; `cells` counts the trials of every subject and class."""
    scores = result.scores
    lines = [*_trial_caveats(cells), *_gain_caveats(result.table.loc[SELECTED]), *_agreement_caveats(scores)]
    missing = int(scores["score"].isna().sum())
    if missing:
        lines.append(f"{missing} of {len(scores)} test scores are not a number and were left out.")
    return lines


def _trial_caveats(cells):
    small = cells[cells["trials"] < _MIN_TRIALS] if cells is not None else ()
    if not len(small):
        return []
    names = ", ".join(f"subject {r.subject} class {r.label}: {r.trials}" for r in small.head(6).itertuples())
    more = f" and {len(small) - 6} more" if len(small) > 6 else ""
    return [
        f"Too few trials: {len(small)} of {len(cells)} cells of subject and class hold fewer than {_MIN_TRIALS} "
        f"({names}{more}). Their scores are coarse, and conditional censoring has little to compare within a class."
    ]


def _gain_caveats(row):
    lines = []
    interval = (
        f"{signed(row['gain'])} (95 % interval over subjects {signed(row['low'])} to {signed(row['high'])})"
    )
    if row["gain"] <= 0:
        lines.append(f"No gain: the selected decoder is not better than the baseline, {interval}.")
    elif row["low"] <= 0:
        lines.append(f"No certain gain: the interval of the gain contains zero, {interval}.")
    if row["seeds"] < 2:
        lines.append("One seed: another seed may give another result.")
    elif row["gain"] > 0 and not row["distinguishable"]:
        lines.append("The gain is not distinguishable from the spread over seeds.")
    return lines


def _agreement_caveats(scores):
    means = scores.groupby("setting")[["score_valid", "score"]].mean().dropna()
    if len(means) < _MIN_SETTINGS or means.nunique().min() < 2:
        return []
    rho = float(spearmanr(means["score_valid"], means["score"]).statistic)
    if rho > 0.3:
        return []
    return [
        f"Validation and test disagree: over {len(means)} configurations their scores correlate by {rho:+.2f} "
        "(Spearman), so selection by validation is little better than chance here."
    ]


def usage(setting, results):
    """Return a sentence and lines of code that use the fold of a configuration with the best validation score."""
    try:
        index = read_index(results.folder)
    except TableError:
        return "", ""
    folds = results.scores[results.scores["setting"] == setting].merge(
        index, on=["setting", "seed", "subject"]
    )
    if folds.empty:
        return "", ""
    best = folds.sort_values("score_valid", ascending=False, kind="stable").iloc[0]
    subject = best["subject"].item() if hasattr(best["subject"], "item") else best["subject"]
    folder, classes = str(results.folder.resolve()), results.identity["classes"]
    words = (
        f"The decoder of every fold is stored. This one was trained without subject {subject} and has the best "
        "validation score. The lines print the classes of that subject's trials."
    )
    return words, _USAGE.format(folder=folder, key=best["key"], subject=subject, classes=classes)


def describe_result(result):
    """Return the result as text for a terminal."""
    lines = [*(fill(sentence, 100) for sentence in sentences(result)), "", narrow_table(result.table)]
    lines += ["", f"Results: {result.out}"] + ([f"Report:  {result.report}"] if result.report else [])
    return "\n".join(lines)


def narrow_table(table):
    """Return the table of results in at most 100 columns."""
    heads = {"setting": "configuration", "lower_quartile": "quartile"}
    frame = table[_COLUMNS].rename(columns=heads).rename_axis(None)
    numbers = frame.columns.drop("configuration")
    frame[numbers] = frame[numbers].astype(float).round(3) + 0.0  # no minus before a zero
    names = [
        name if len(name) <= _MAX_LETTERS else name[: _MAX_LETTERS - 1] + "…" for name in table["setting"]
    ]
    frame["configuration"] = [name.ljust(max(map(len, names))) for name in names]
    return frame.to_string(float_format="{:.3f}".format, na_rep="–")


def signed(value):
    """Return a difference with its sign."""
    rounded = round(float(value), 3)
    return f"{rounded:+.3f}" if rounded else "0.000"
