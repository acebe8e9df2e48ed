"""The progress of a search: time or trainings used, and the best score so far."""

import numpy as np

from braindecode_censor.run.progress import Progress

__all__ = ["SearchProgress"]


class SearchProgress(Progress):
    """Counts seconds of the time limit if there is one, else trainings."""

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
        self.update(
            self.budget.n_trained if self.budget.limit is None else round(self.budget.elapsed()), note
        )
