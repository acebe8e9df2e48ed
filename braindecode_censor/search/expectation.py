"""What to expect of the next person, and what the numbers cannot say."""

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from scipy.stats import t

from braindecode_censor._check import check_fraction

__all__ = ["HeldoutScores", "expect", "paired_interval", "prediction_interval", "shared_trials"]

_FEW_PEOPLE = 8


@dataclass
class HeldoutScores:
    """The strictly nested scores of the method, and what they promise for the next person."""

    scores: dict
    mean: float
    lower_quartile: float
    low: float
    high: float
    level: float = 0.9
    gain: dict = field(default_factory=dict)
    strict: bool = True
    warnings: list = field(default_factory=list)

    def __str__(self):
        text = (
            f"{self.mean:.3f} balanced accuracy in the mean over {len(self.scores)} people, none of whom was seen; "
            f"the next person's will lie between {self.low:.3f} and {self.high:.3f} ({self.level:.0%} interval)"
        )
        return ". ".join([text, *self.warnings])


def prediction_interval(scores, level=0.9, n_trials=None):
    """Return an interval for the score of one more person."""
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
    """Return mean and interval of a gain, paired over people."""
    difference = np.asarray(scores, dtype=float) - np.asarray(baseline, dtype=float)
    n, mean = len(difference), float(difference.mean())
    if n < 2:
        return {"mean": mean, "low": -1.0, "high": 1.0}
    half = t.ppf((1 + level) / 2, n - 1) * difference.std(ddof=1) / np.sqrt(n)
    return {"mean": mean, "low": float(mean - half), "high": float(mean + half)}


def expect(people, scores, baseline=None, *, n_trials=None, strict=True, shared=(), level=0.9):
    """Return what to expect of the next person."""
    tested = np.isfinite(scores)
    if not tested.any():
        nan = float("nan")
        told = "Nobody was tested: the search ended before two candidates had left out the same people"
        return HeldoutScores({}, nan, nan, 0.0, 1.0, level, strict=strict, warnings=[told])
    known, names = scores[tested], [p for p, is_tested in zip(people, tested) if is_tested]
    gain, warnings = {}, []
    if len(known) < _FEW_PEOPLE:
        warnings.append(f"{len(known)} people are few: the interval is wide and itself uncertain")
    if baseline is not None:
        name, plain = baseline
        both = tested & np.isfinite(plain)
        if both.sum() > 2:
            gain = {"over": name, **paired_interval(scores[both], plain[both], level)}
        if gain and gain["low"] <= 0 <= gain["high"]:
            warnings.append(
                f"The gain over {name} is within noise: {gain['mean']:+.3f}, {level:.0%} interval "
                f"{gain['low']:+.3f} to {gain['high']:+.3f}"
            )
    for first, second in shared:
        warnings.append(
            f"Candidates have seen the person: {first!r} and {second!r} have trials in common, so a model trained "
            "without one of them may know them from the other"
        )
    if not strict:
        warnings.append(
            "Which candidates were trained further was decided by the scores of all people, so the scores may "
            "be a little too high; time_limit=None with a fixed list of candidates avoids this"
        )
    low, high = prediction_interval(known, level, n_trials)
    quartile = float(np.quantile(known, 0.25))
    return HeldoutScores(
        dict(zip(names, known.tolist())),
        float(known.mean()),
        quartile,
        low,
        high,
        level,
        gain,
        strict,
        warnings,
    )


def shared_trials(X, subjects, X_other=None):
    """Find people who have trials in common, such as one person recorded under two names."""
    owners, shared = {}, {}
    named = [*zip(np.asarray(subjects).tolist(), X)]
    named += [] if X_other is None else [("the new person", x) for x in np.asarray(X_other, dtype=X.dtype)]
    for person, x in named:
        if not np.ptp(x):  # trials of one constant say nothing about who they are from
            continue
        owner = owners.setdefault(blake2b(np.ascontiguousarray(x), digest_size=16).digest(), person)
        if owner != person:
            shared[owner, person] = True
    return list(shared)
