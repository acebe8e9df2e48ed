"""A bar for the search: how much time or how many trainings are used, and the best score so far."""

import sys

import numpy as np
from tqdm import tqdm

__all__ = ["SearchProgress"]


class SearchProgress:
    """Shows a bar on a terminal."""

    def __init__(self, verbose, budget, total=None):
        self.budget, self.best, self.trained = budget, {}, 0
        limit = total or budget.max_trainings or (budget.limit and round(budget.limit))
        unit = "s" if budget.limit else "training"
        quiet = not verbose or not sys.stderr.isatty()
        self.bar = tqdm(total=limit, desc="search", unit=unit, disable=quiet, file=sys.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.bar.close()

    def report(self, outcome, result):
        """Note a finished training."""
        self.trained += 1
        if self.bar.disable:
            return
        if outcome.error is None:
            self.best[outcome.candidate] = float(np.nanmean(result.heldout.scores(outcome.candidate)))
        if self.best:
            name = max(self.best, key=self.best.get)
            self.bar.set_postfix_str(f"best so far {name} ({self.best[name]:.3f})", refresh=False)
        done = self.trained if self.budget.limit is None else round(self.budget.elapsed())
        self.bar.update(done - self.bar.n)
