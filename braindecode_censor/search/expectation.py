"""What to expect of the next person, and what the numbers cannot say."""

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from scipy.stats import t

from braindecode_censor._check import check_fraction

__all__ = ["Expectation", "expect", "paired_interval", "prediction_interval", "shared_trials"]

_FEW_PEOPLE = 8


@dataclass
class Expectation:
    """The strictly nested scores of the method, and what they promise for the next person.

    Parameters
    ----------
    scores : dict of object to float
        Balanced accuracy of every person; choice and weights were made without them.
    mean : float
        Mean over people.
    lower_quartile : float
        A quarter of the people have less.
    low, high : float
        Interval for the score of the next person.
    level : float
        Probability with which the interval should hold the next person's score.
    gain : dict
        ``over``, the name of the plain decoder, and ``mean``, ``low`` and ``high`` of the difference to it, paired
        over people, with the level of the interval; empty without a plain decoder.
    strict : bool
        Whether no score of anybody had a part in which candidates were trained at all.
    warnings : list of str
        What to bear in mind.
    """

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
    """Return an interval for the score of one more person.

    Parameters
    ----------
    scores : array-like of shape (n_people,)
        Scores of people who were not seen.
    level : float
        Probability with which the next score should lie inside.
    n_trials : int or None
        Trials of a person. If given, the spread is at least that of so many trials that are right with the mean
        score's probability: people who are all decoded without an error do not promise this for everybody.

    Returns
    -------
    low, high : float
        Student's prediction interval, within 0 and 1. The scores hold the chance of a finite number of trials as
        the next person's will, so it is in the interval without being added.
    """
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
    """Return mean and interval of a gain, paired over people.

    Parameters
    ----------
    scores, baseline : array-like of shape (n_people,)
        Scores of two decoders for the same people.
    level : float
        Probability of the interval.

    Returns
    -------
    gain : dict of str to float
        ``mean``, ``low`` and ``high``.
    """
    difference = np.asarray(scores, dtype=float) - np.asarray(baseline, dtype=float)
    n, mean = len(difference), float(difference.mean())
    if n < 2:
        return {"mean": mean, "low": -1.0, "high": 1.0}
    half = t.ppf((1 + level) / 2, n - 1) * difference.std(ddof=1) / np.sqrt(n)
    return {"mean": mean, "low": float(mean - half), "high": float(mean + half)}


def expect(people, scores, baseline=None, *, n_trials=None, strict=True, shared=(), level=0.9):
    """Return what to expect of the next person.

    Parameters
    ----------
    people : sequence
        Labels of all people.
    scores : ndarray of shape (n_people,)
        Nested scores; people with NaN were not tested and are left out.
    baseline : (str, ndarray of shape (n_people,)) or None
        Name and scores of the plain decoder to compare with.
    n_trials : int or None
        Trials of a person, as for :func:`prediction_interval`.
    strict : bool
        Whether the candidates were trained whatever anybody's scores were.
    shared : sequence of (object, object)
        People who have trials in common, see :func:`shared_trials`.
    level : float
        Probability of the intervals.

    Returns
    -------
    expectation : Expectation
        With a warning for everything that makes the numbers doubtful.
    """
    tested = np.isfinite(scores)
    if not tested.any():
        nan = float("nan")
        told = "Nobody was tested: the search ended before two candidates had left out the same people"
        return Expectation({}, nan, nan, 0.0, 1.0, level, strict=strict, warnings=[told])
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
    return Expectation(
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
    """Find people who have trials in common, such as one person recorded under two names.

    Parameters
    ----------
    X : ndarray of shape (n_trials, n_chans, n_times)
        Signals.
    subjects : ndarray of shape (n_trials,)
        Whose trial each one is.
    X_other : ndarray of shape (n_others, n_chans, n_times) or None
        Trials of the person to come, who must not be among the people.

    Returns
    -------
    shared : list of (object, object)
        Pairs of people with a trial of exactly the same numbers; the person to come is called "the new person".
    """
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
