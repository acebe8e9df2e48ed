"""The report of a decoder: one page for those who will use it."""

from io import BytesIO

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix
from statsmodels.stats.proportion import proportion_confint

from braindecode_censor.storage import html

__all__ = ["calibration_table", "decided_table", "write_report"]

_LEVEL = 0.9
_WIDTH = 3.4  # inches, which a phone shows without scrolling


def write_report(clf, path):
    """Write the report of a fitted classifier and return its path."""
    page = html.Page("A decoder for a new subject")
    _add_summary(page, clf)
    if clf.answers_:
        probabilities = np.concatenate([p for p, _ in clf.answers_.values()])
        y = np.concatenate([y for _, y in clf.answers_.values()])
        with plt.rc_context({"font.size": 8, "figure.constrained_layout.use": True}):
            _add_subjects(page, clf)
            _add_trials(page, clf, probabilities, y)
    page.add("Ensemble", "Candidates and combinations", html.table(clf.leaderboard_, "leaderboard"))
    limits = [f"{text}." for text in clf.heldout_.warnings]
    limits += [f"{name} failed and was left out: {error}" for name, error in clf.errors_.items()]
    limits += ["The scores hold for subjects recorded like the training subjects."]
    page.add("Limits", "When not to rely on this page", html.items(limits, "warnings"))
    page.add("Limits", "Versions", html.facts(clf.versions_, "versions"))
    return page.write(path)


def _add_summary(page, clf):
    n_candidates = (clf.leaderboard_["kind"] != "combination").sum()
    lines = [
        f"{clf.heldout_}.",
        f"Chance level: {1 / len(clf.classes_):.3f}.",
        f"{n_candidates} candidates were trained on {clf.n_trials_} trials of {len(clf.subjects_)} subjects, each time "
        "without two of them, and decoded these.",
        f"The decoder {'goes on learning' if clf.teacher_ else 'does not learn'} from a new subject's trials.",
    ]
    page.add("Summary", "What to expect of the next subject", html.items(lines, "summary"))


def _add_subjects(page, clf):
    rows = []
    for subject, (p, y) in clf.answers_.items():
        low, high = proportion_confint((p.argmax(axis=1) == y).sum(), len(y), 1 - _LEVEL, method="wilson")
        score = clf.heldout_.scores[subject]
        rows.append(
            {"subject": subject, "balanced accuracy": score, "low": low, "high": high, "trials": len(y)}
        )
    scores = pd.DataFrame(rows).sort_values("balanced accuracy", ignore_index=True)
    figure, axes = plt.subplots(figsize=(_WIDTH, 0.8 + 0.16 * len(scores)))
    axes.hlines(scores.index, scores["low"], scores["high"], color="0.7")
    axes.plot(scores["balanced accuracy"], scores.index, "o", color="C0")
    axes.axvline(1 / len(clf.classes_), color="0.5", linestyle=":")
    axes.set(yticks=scores.index, yticklabels=scores["subject"], xlabel="balanced accuracy", xlim=(0, 1))
    words = (
        f"Score of every held-out subject with the {_LEVEL:.0%} interval of its right trials; dotted: chance."
    )
    alt = f"Scores from {scores['balanced accuracy'].min():.2f} to {scores['balanced accuracy'].max():.2f}."
    _add(page, "Subjects", "Held-out subjects", words, alt, figure)
    page.add("Subjects", "As a table", html.table(scores, "subjects"))
    forecaster = clf.teacher_ and clf.teacher_.forecaster
    if not forecaster or not np.isfinite(forecaster.left_out).all():
        return
    figure, axes = plt.subplots(figsize=(_WIDTH, _WIDTH))
    axes.plot([0, 1], [0, 1], ":", color="0.5")
    sns.scatterplot(x=forecaster.left_out, y=forecaster.scores, ax=axes)
    axes.set(xlabel="forecast", ylabel="balanced accuracy", xlim=(0, 1), ylim=(0, 1))
    rank = forecaster.rank_correlation.statistic
    words = "The score of each held-out subject against its forecast, made without its labels and from other subjects. "
    words += "Forecasts are given to new subjects." if forecaster.predicts else (
        "The forecasts do not predict the scores, so that none is given to new subjects."
    )  # fmt: skip
    _add(page, "Subjects", "Forecast and score", words, f"Rank correlation {rank:.2f}.", figure)


def _add_trials(page, clf, probabilities, y):
    decided = decided_table(probabilities, y)
    figure, axes = plt.subplots(figsize=(_WIDTH, 2.2))
    sns.lineplot(decided, x="decided", y="right", ax=axes)
    axes.set(xlabel="fraction of trials decided, the surest first", ylabel="right")
    words = "Leave uncertain trials undecided: predict(X, sure=...). The table gives the threshold."
    some = decided.iloc[(np.linspace(0.1, 1, 10) * len(decided)).astype(int) - 1]
    alt = f"Of all trials {decided['right'].iloc[-1]:.2f} are right, of the surest half {some['right'].iloc[4]:.2f}."
    _add(page, "Trials", "Undecided trials", words, alt, figure)
    page.add("Trials", "Thresholds", html.table(some, "thresholds"))
    bins, error = calibration_table(probabilities, y)
    figure, axes = plt.subplots(figsize=(_WIDTH, _WIDTH))
    axes.plot([0, 1], [0, 1], ":", color="0.5")
    sns.lineplot(bins, x="confidence", y="right", marker="o", ax=axes)
    words = f"Right trials by the probability of the decided class. Expected calibration error: {error:.3f}."
    _add(page, "Trials", "Calibration", words, words, figure)
    figure, axes = plt.subplots(figsize=(_WIDTH, _WIDTH))
    names, predicted = clf.classes_.astype(str), probabilities.argmax(axis=1)
    matrix = confusion_matrix(y, predicted, labels=range(len(names)), normalize="true")
    display = ConfusionMatrixDisplay(matrix, display_labels=names)
    display.plot(ax=axes, values_format=".2f", cmap="Blues", colorbar=False)
    right = [f"{name}: {fraction:.2f}" for name, fraction in zip(names, np.diagonal(matrix))]
    words = "Decoded classes of the trials of every class, as fractions."
    _add(page, "Trials", "Confusion matrix", words, f"Right: {', '.join(right)}.", figure)


def decided_table(probabilities, y):
    """Return the fraction of right trials and the threshold for every number of decided trials."""
    confidence = probabilities.max(axis=1)
    order = np.argsort(-confidence, kind="stable")
    right, n = (probabilities.argmax(axis=1) == y)[order].cumsum(), np.arange(1, len(y) + 1)
    return pd.DataFrame({"decided": n / len(y), "right": right / n, "sure": confidence[order]})


def calibration_table(probabilities, y, n_bins=10):
    """Return mean confidence and fraction of right trials by bins of confidence, and the calibration error."""
    frame = pd.DataFrame(
        {"confidence": probabilities.max(axis=1), "right": probabilities.argmax(axis=1) == y}
    )
    groups = frame.groupby(np.minimum((frame["confidence"] * n_bins).astype(int), n_bins - 1))
    bins = groups.mean().assign(trials=groups.size())
    error = ((bins["confidence"] - bins["right"]).abs() * bins["trials"]).sum() / len(y)
    return bins, float(error)


def _add(page, section, title, caption, alt, figure):
    content = BytesIO()
    figure.savefig(content, format="png", dpi=200)
    plt.close(figure)
    page.add_figure(section, title, caption, content.getvalue(), alt)
