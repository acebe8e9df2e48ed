"""The budget of a search, in seconds or trainings or without limit, and a bar of how much of it is used."""

import time

import numpy as np
import pandas as pd

from braindecode_censor._check import check_positive, check_size
from braindecode_censor.run.progress import Progress

__all__ = ["Budget", "SearchProgress", "parse_seconds"]

_RESERVE = 0.12  # of the time limit, for what comes after the last training


def parse_seconds(argument, value):
    """Return a time in seconds from a number or a text such as "90s", "10m" or "1.5h"; None stays None."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            try:
                value = pd.Timedelta(value).total_seconds()
            except ValueError:
                raise ValueError(
                    f"{argument}={value!r} must be seconds, or a text such as '90s', '10m' or '1.5h'."
                ) from None
    return None if value is None else check_positive(argument, value)


class Budget:
    """A time limit, or a number of trainings, which then makes equal searches equal."""

    def __init__(self, time_limit=None, max_trainings=None, now=time.monotonic):
        limit = parse_seconds("time_limit", time_limit)
        self.max_trainings = None if max_trainings is None else check_size("max_trainings", max_trainings)
        self.limit = None if max_trainings is not None else limit
        self.now, self.start, self.n_trained = now, now(), 0

    def elapsed(self):
        """Return the seconds since the search began."""
        return self.now() - self.start

    def seconds_left(self, fraction=1.0):
        """Return the seconds until a fraction of the time for trainings is used."""
        return float("inf") if self.limit is None else fraction * (1 - _RESERVE) * self.limit - self.elapsed()

    def trainings_left(self):
        """Return how many trainings are left."""
        return float("inf") if self.max_trainings is None else self.max_trainings - self.n_trained


class SearchProgress(Progress):
    """Seconds of the time limit if there is one, else trainings; and the best candidate so far."""

    def __init__(self, verbose, budget):
        total = budget.max_trainings or (budget.limit and round(budget.limit))
        super().__init__(total, "s" if budget.limit else "training", "search", quiet=not verbose)
        self.budget, self.best = budget, {}

    def report(self, result, search):
        """Show a finished training."""
        name = result.training.name
        self.best.pop(name, None)
        if name in search.heldout.probabilities:
            self.best[name] = float(np.nanmean(search.heldout.scores(name)))
        best = max(self.best, key=self.best.get, default=None)
        note = "" if best is None else f"best so far {best} ({self.best[best]:.3f})"
        done = self.budget.n_trained if self.budget.limit is None else round(self.budget.elapsed())
        self.update(done, note)
