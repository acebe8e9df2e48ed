"""How much can be trained in the time there is: choices from measured speed."""

import re
import time
from dataclasses import dataclass
from math import ceil

from braindecode_censor._check import check_positive, check_size

__all__ = ["Budget", "Cost", "Rung", "choose_rung", "count_rungs", "parse_seconds"]

_UNITS = {"s": 1, "m": 60, "h": 3600}
_RESERVE = 0.12  # of the limit, for what comes after the last training
_FEWEST_STEPS = 10
# Steps as a share of a full training, in halves, so that a second search at nearly the same speed finds what the
# first has trained.
_SHARES = (1.0, 0.5, 0.25, 0.125)
_LAST_RESORT = (1 / 16, 1 / 32, 1 / 64)


def parse_seconds(argument, value):
    """Return a time in seconds."""
    if value is None:
        return None
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smh]?)\s*", value)
        if match is None:
            raise ValueError(
                f"{argument}={value!r} must be seconds, or a text such as '90s', '10m' or '1.5h'."
            )
        value = float(match[1]) * _UNITS[match[2] or "s"]
    return check_positive(argument, value)


class Budget:
    """What a search may use: seconds, trainings, or as it takes."""

    def __init__(self, time_limit=None, max_trainings=None, now=time.monotonic):
        limit = parse_seconds("time_limit", time_limit)
        self.max_trainings = None if max_trainings is None else check_size("max_trainings", max_trainings)
        self.limit = None if max_trainings is not None else limit
        self.now, self.start, self.trained = now, now(), 0

    def elapsed(self):
        """Return the seconds since the search began."""
        return self.now() - self.start

    def left(self, share=1.0):
        """Return the seconds until a share of the time for trainings is used up."""
        return float("inf") if self.limit is None else share * (1 - _RESERVE) * self.limit - self.elapsed()

    def trainings_left(self, share=1.0):
        """Return how many trainings are left."""
        return float("inf") if self.max_trainings is None else int(share * self.max_trainings) - self.trained


@dataclass
class Cost:
    """What a training of a network takes."""

    overhead: float
    per_step: float
    steps: int

    def seconds(self, share):
        """Return the time of a training."""
        return self.overhead + self.per_step * self.steps_of(share)

    def steps_of(self, share):
        """Return the steps of a training."""
        return min(self.steps, max(_FEWEST_STEPS, round(share * self.steps)))


@dataclass
class Rung:
    """One round of successive halving."""

    n_candidates: int
    n_pairs: int
    share: float


def count_rungs(n_candidates):
    """Return in how many rounds candidates are halved."""
    return 1 if n_candidates <= 2 else 2 if n_candidates <= 5 else 3


def choose_rung(costs, seconds, n_people, n_pairs, jobs=1, last=False, alone=True):
    """Return the largest round that fits into the time."""
    once = min(n_pairs, ceil(n_people / 2))  # everybody is tested once
    twice = min(n_pairs, n_people)
    many = [(1.0, n_pairs), (1.0, twice), (0.5, twice)] if last else []
    options = many + [(share, once) for share in _SHARES] + [(_SHARES[-1], ceil(once / 2))]
    count = len(costs)
    while True:
        fewest = 1 if alone else ceil(once / 2)
        shortest = [(share, fewest) for share in (_SHARES[-1], *_LAST_RESORT)] if count == 1 else []
        for share, pairs in options + shortest:
            each = [cost.seconds(share) for cost in costs[:count]]
            rounds = ceil(count * pairs / jobs)
            if sum(each) / count * rounds <= seconds:
                return Rung(count, pairs, share)
        if count == 1:
            return None
        count = ceil(count / 2)
