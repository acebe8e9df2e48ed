"""How fast this machine trains: short trials before the search, so that it can keep its time."""

import time
from dataclasses import replace
from math import ceil

import numpy as np

from braindecode_censor.run.pair_runner import Task
from braindecode_censor.run.pair_trainings import train_pairs
from braindecode_censor.search.budget import Cost

__all__ = ["Speed"]

_MEASURING = 0.06  # of the limit may be spent on measuring speeds
_PROBE = 48  # trials of a first look at a candidate's speed
_LATEST = 1.05  # of the limit: when trainings that take longer than predicted are given up
_CALIBRATION = (3, 20)  # steps of two short trainings that tell a network's speed, the second one's at most
_FLEET_CALIBRATION = (20, 60)


class Speed:
    """Measures how long trainings take."""

    def __init__(self, data, budget, runner):
        self.data, self.budget, self.runner = data, budget, runner
        self.failed = {}

    def latest(self):
        """Return when a training that takes much longer than predicted has to be given up."""
        limit = self.budget.limit
        return None if limit is None else time.time() + _LATEST * limit - self.budget.elapsed()

    def probe(self, candidate):
        """Predict the time of a classical candidate's training from one or two with few trials."""
        n_trials = len(self.data.X)
        few, seconds = self._look(candidate, _PROBE)
        predicted = seconds * n_trials / few
        dear = 4 * seconds > _MEASURING / 4 * self.budget.limit  # so dear that a second look is, too
        if dear or predicted < _MEASURING / 4 * self.budget.limit or n_trials < 8 * _PROBE:
            return predicted
        more, longer = self._look(candidate, 4 * _PROBE)
        slope = max(longer - seconds, 0.1 * longer) / max(more - few, 1)
        return longer + slope * (n_trials - more)

    def _look(self, candidate, count):
        """Train a classical candidate on some trials, and return how many they are and how long it takes."""
        some = self._some_trials(count, "cpu")
        return len(some.X), train_pairs(candidate, [0], None, some)[0].seconds

    def _some_trials(self, count, device):
        """Return about so many trials of all classes, and four of each person of the first pair."""
        data = self.data
        seen = data.seen_without(0)
        some = [seen[data.y[seen] == k][:: max(1, len(seen) // count)] for k in range(data.n_classes)]
        tested = [data.trials_of(person)[:4] for person in data.pairs[0]]
        kept = np.union1d(np.concatenate(some), np.concatenate(tested))
        return replace(data, X=data.X[kept], y=data.y[kept], people=data.people[kept], device=device)

    def measure_all(self, candidates, like=None):
        """Measure what a step costs, for networks of several sizes as this takes little of the time."""
        costs, errors = {}, {}
        measured, first, began = {}, None, self.budget.elapsed()
        for candidate in candidates:
            size = _size_of(candidate)
            if like is not None:
                measured[size] = like
            elif size not in measured:
                share = _MEASURING * self.budget.limit
                if self.budget.left() < share:
                    continue
                if first is None or self.budget.elapsed() - began < share:
                    measured[size] = self._measure(candidate)
                    first = first or measured[size]
                else:
                    measured[size] = first[0], first[1] * _times_slower(candidate)
            if measured.get(size) is not None:
                costs[candidate.name] = Cost(*measured[size], candidate.steps)
            elif size in self.failed:
                errors[candidate.name] = self.failed[size]
        return costs, errors

    def _measure(self, candidate):
        """Return overhead and time of a step, from short trainings; None if they fail or there is no time for them."""
        fleet = self.runner.is_for_fleet(candidate)
        few, many = _FLEET_CALIBRATION if fleet else _CALIBRATION
        count = ceil(self.data.n_people / 2) if fleet else 1
        share = _MEASURING * self.budget.limit / count
        # The first one warms up, and shows a network that is too slow for a longer look.
        first = self._time(candidate, few, count) if fleet else self._time_on_some(candidate, few)
        if first is None:
            return None
        if first > share and not fleet:
            return 0.0, first / few
        short = self._time(candidate, few, count)
        if short is None:
            return None
        if short > share:
            return 0.0, short / few
        many = max(2 * few, min(many, int(few * share / short)))
        long = self._time(candidate, many, count)
        if long is None:
            return None
        per_step = max((long - short) / (many - few), 0.1 * long / many)
        return max(long - many * per_step, 0.0), per_step

    def _time_on_some(self, candidate, steps):
        """Return the seconds of a training on a few trials; None if it takes too long."""
        some = self._some_trials(_PROBE, self.data.device)
        outcomes = train_pairs(candidate, [0], steps, some, give_up=self.latest())
        if not outcomes:
            return None
        return 0.0 if outcomes[0].error else outcomes[0].seconds  # an error shows again with all trials

    def _time(self, candidate, steps, count):
        """Return the seconds of one of so many trainings; None if they fail or take too long."""
        started = time.perf_counter()
        if self.runner.is_for_fleet(candidate):
            tasks = [Task(candidate, list(range(count)), steps)]
            outcomes = list(self.runner.run_fleet(tasks, keep=False))
        else:
            outcomes = train_pairs(candidate, [0], steps, self.data, give_up=self.latest())
        if outcomes and outcomes[0].error is not None:
            self.failed[_size_of(candidate)] = outcomes[0].error
        if not outcomes or outcomes[0].error is not None:
            return None
        return (time.perf_counter() - started) / count


def _size_of(candidate):
    return repr([candidate.spec.get(name) for name in ("network", "F1", "D", "kernel", "protocol")])


def _times_slower(candidate):
    """Guess by which factor a step takes longer than one of EEGNet with eight filters."""
    return candidate.spec.get("F1", 8) / 8 * (1 if candidate.spec["network"] == "EEGNet" else 3)
