"""The score to expect of a new subject, with its interval and its limits."""

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from scipy.stats import t

from braindecode_censor._check import check_fraction
from braindecode_censor.storage.schema import Label

__all__ = ["HeldoutScores", "expect", "find_shared_trials", "paired_interval", "prediction_interval"]

_FEW_SUBJECTS = 8


@dataclass
class HeldoutScores:
    """The nested scores of the method, and the interval in which a new subject's score is expected."""

    scores: dict[Label, float]  # subject -> balanced accuracy
    mean: float
    lower_quartile: float
    low: float
    high: float
    level: float = 0.9
    gain: dict[str, Label] = field(default_factory=dict)  # over the plain network: over, mean, low, high
    nested: bool = True  # no choice was made by the scores of all subjects
    warnings: list[str] = field(default_factory=list)

    def __str__(self):
        text = (
            f"{self.mean:.3f} balanced accuracy in the mean over {len(self.scores)} held-out subjects; the score of a "
            f"new subject is expected between {self.low:.3f} and {self.high:.3f} ({self.level:.0%} interval)"
        )
        return ". ".join([text, *self.warnings])


def prediction_interval(scores, level=0.9, n_trials=None):
    """Return an interval for the score of one more subject."""
    check_fraction("level", level)
    scores = np.asarray(scores, dtype=float)
    n = len(scores)
    if n < 2:
        return 0.0, 1.0
    spread = scores.std(ddof=1)
    if n_trials is not None:
        rate = (scores.mean() * n * n_trials + 1) / (n * n_trials + 2)  # Laplace's rule: never quite 0 or 1
        spread = max(spread, np.sqrt(rate * (1 - rate) / n_trials))
    half = t.ppf((1 + level) / 2, n - 1) * spread * np.sqrt(1 + 1 / n)
    return float(max(0.0, scores.mean() - half)), float(min(1.0, scores.mean() + half))


def paired_interval(scores, baseline, level=0.9):
    """Return mean and interval of a gain, paired over subjects."""
    difference = np.asarray(scores, dtype=float) - np.asarray(baseline, dtype=float)
    n, mean = len(difference), float(difference.mean())
    if n < 2:
        return {"mean": mean, "low": -1.0, "high": 1.0}
    half = t.ppf((1 + level) / 2, n - 1) * difference.std(ddof=1) / np.sqrt(n)
    return {"mean": mean, "low": float(mean - half), "high": float(mean + half)}


def expect(subjects, scores, baseline=None, *, n_trials=None, nested=True, shared=(), level=0.9):
    """Return the scores to expect of a new subject; `baseline` is a name with the plain network's scores."""
    is_tested = np.isfinite(scores)
    if not is_tested.any():
        nan = float("nan")
        text = "No subject was tested: the search ended before two candidates were trained on the same fold"
        return HeldoutScores({}, nan, nan, 0.0, 1.0, level, nested=nested, warnings=[text])
    tested_scores = scores[is_tested]
    names = [subject for subject, tested in zip(subjects, is_tested) if tested]
    gain, warnings = {}, []
    if len(tested_scores) < _FEW_SUBJECTS:
        warnings.append(f"{len(tested_scores)} subjects are few: the interval is wide and itself uncertain")
    if baseline is not None:
        name, plain = baseline
        both = is_tested & np.isfinite(plain)
        if both.sum() > 2:
            gain = {"over": name, **paired_interval(scores[both], plain[both], level)}
        if gain and gain["low"] <= 0 <= gain["high"]:
            warnings.append(
                f"The gain over {name} is within noise: {gain['mean']:+.3f}, {level:.0%} interval "
                f"{gain['low']:+.3f} to {gain['high']:+.3f}"
            )
    for first, second in shared:
        warnings.append(
            f"Candidates have seen the held-out subject: {first!r} and {second!r} have trials in common, so a model "
            "trained without one of them may know them from the other"
        )
    if not nested:
        warnings.append(
            "The candidates that were trained further were selected by the scores of all subjects, so the scores may "
            "be a little too high; time_limit=None with a fixed list of candidates avoids this"
        )
    low, high = prediction_interval(tested_scores, level, n_trials)
    by_subject = dict(zip(names, tested_scores.tolist()))
    mean, quartile = float(tested_scores.mean()), float(np.quantile(tested_scores, 0.25))
    return HeldoutScores(by_subject, mean, quartile, low, high, level, gain, nested, warnings)


def find_shared_trials(X, subjects, X_target=None):
    """Return pairs of subjects that have trials in common, such as one subject recorded under two names."""
    owners, shared = {}, {}
    trials = [*zip(np.asarray(subjects).tolist(), X)]
    trials += (
        [] if X_target is None else [("the new subject", x) for x in np.asarray(X_target, dtype=X.dtype)]
    )
    for subject, x in trials:
        if not np.ptp(x):  # Constant trials do not identify a subject.
            continue
        owner = owners.setdefault(blake2b(np.ascontiguousarray(x), digest_size=16).digest(), subject)
        if owner != subject:
            shared[owner, subject] = True
    return list(shared)
