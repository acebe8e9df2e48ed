"""The search: a portfolio of candidates in a queue, within a time limit or a number of trainings.

Candidates come in a fixed order, classical ones first. Each classical candidate is trained on the first fold, which
tells its cost; short trainings of the first network tell the cost of all networks and one fraction of the steps for
all of them. In the first pass, candidate after candidate is trained on the folds that test every subject once. In
the second pass, the candidates that hold most of the ensemble's weight get the other folds. Then come the
candidates that had to wait, and censored variants of the best network.
"""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch

from braindecode_censor.run.runner import count_workers, run
from braindecode_censor.search.family import censored_candidates
from braindecode_censor.search.heldout import HeldOut
from braindecode_censor.search.weights import choose_weights

__all__ = ["Search", "SearchResult"]

_CLASSICAL = 0.3  # of the time for trainings may go to classical candidates, if there are networks
_FIRST_PASS = 0.6  # of the time that remains for networks goes to the first pass
_FIRST_NETWORKS = 4  # that must fit into the first pass
_FRACTIONS = (1.0, 0.5, 0.25, 0.125)  # of a network's steps; the same for all networks
_FEWEST_STEPS = 10
_TOP_WEIGHT = 0.9  # of the ensemble's weight, whose candidates are trained on all folds
_MARGIN = 1.2  # safety factor on the predicted duration of a training
_GRACE = 1.05  # of the time limit: when networks are given up that take longer than predicted
_CENSORING_COST = 1.4  # of a censored training, relative to a plain one
_TIMED_STEPS, _TIMED_FLEET_STEPS = (3, 20), (20, 60)  # of two timing runs of the first network


@dataclass
class SearchResult:
    """The held-out probabilities and models of a search."""

    heldout: HeldOut
    models: dict = field(default_factory=dict)  # (candidate, fold) -> bytes, or a user's own fitted estimator
    candidates: dict = field(default_factory=dict)  # name -> Candidate
    finalists: list = field(default_factory=list)  # names of the candidates that can be combined
    seconds: dict = field(default_factory=lambda: defaultdict(float))
    n_trainings: dict = field(default_factory=lambda: defaultdict(int))
    errors: dict = field(default_factory=dict)  # name -> why the candidate was dropped
    nested: bool = True  # no training was decided by the scores of all subjects
    interrupted: bool = False

    def record(self, result, fold):
        """Store a finished training; one that was given up says nothing about its candidate."""
        name = result.training.name
        if result.out_of_time:
            return
        self.seconds[name] += result.seconds
        self.n_trainings[name] += 1
        if result.error is not None:
            self.errors[name] = result.error
            self.heldout.remove(name)
            self.models = {key: model for key, model in self.models.items() if key[0] != name}
        elif name not in self.errors:
            self.heldout.add(name, fold, result.probabilities)
            self.models[name, fold] = result.model

    def complete(self, n_subjects):
        """Return the candidates that have tested every subject, in the order in which they were begun."""
        names = [name for name in self.candidates if name in self.heldout.probabilities]
        return [name for name in names if len(self.heldout.tested_subjects(name)) == n_subjects]

    def select_finalists(self, n_subjects):
        """Return the candidates that have tested every subject; if none has, those that share a fold."""
        complete = self.complete(n_subjects)
        if complete:
            return complete
        names = [name for name in self.candidates if name in self.heldout.probabilities]
        remaining = sorted(names, key=lambda name: -len(self.heldout.probabilities[name]))
        while remaining and not self.heldout.shared_folds(remaining):
            remaining.pop()
        return [name for name in names if name in remaining]


class Search:
    """A queue of trainings over candidates and folds.

    Parameters
    ----------
    trials : FoldedTrials
        Trials and folds.
    candidates : list of Candidate
        In the order in which they are tried.
    censored : bool
        Try censored variants of the best network, too.
    budget : Budget
        Time or number of trainings.
    store, n_jobs, client
        As for :func:`~braindecode_censor.run.runner.run`.
    report : callable
        Called with every result and the :class:`SearchResult` so far.
    """

    def __init__(
        self, trials, candidates, censored, budget, store=None, n_jobs=1, client=None, report=lambda *_: None
    ):
        self.trials, self.censored, self.budget, self.report = trials, censored, budget, report
        self.classical = [c for c in candidates if c.kind != "network"]
        self.networks = [c for c in candidates if c.kind == "network"]
        self.run_trainings = partial(run, data=trials.data, store=store, n_jobs=n_jobs, client=client)
        self.on_gpu = torch.device(trials.device).type == "cuda"
        self.n_workers = count_workers(n_jobs, client)
        self.result = SearchResult(HeldOut(trials.labels, trials.folds))
        self.cost = _NetworkCost()
        self.first_folds = range(trials.n_first_folds)
        self.other_folds = range(trials.n_first_folds, len(trials.folds))

    def run(self):
        """Return the :class:`SearchResult`; what is finished when Ctrl-C is pressed counts."""
        result = self.result
        try:
            self._search()
        except KeyboardInterrupt:
            if not result.models:
                raise
            result.interrupted, result.nested = True, False
        result.finalists = result.select_finalists(self.trials.n_subjects)
        if not result.finalists:
            self._raise_no_finalist()
        return result

    def _search(self):
        candidates = [*self.classical, *self.networks]
        if self.budget.limit is None and self.budget.max_trainings is None:
            self._train((c, k) for c in candidates for k in self.first_folds)
            self._train((c, k) for k in self.other_folds for c in candidates)
            variants = self._variants()
            self._train((c, k) for c in variants for k in range(len(self.trials.folds)))
            self.result.nested = not variants
            return
        fraction = _CLASSICAL if self.networks else 1.0
        for candidate in self.classical:  # one after the other, because each tells what the next may cost
            self._train([(candidate, 0)], fraction)
        waiting = self._first_pass(self.classical, self.budget.elapsed() + self.budget.seconds_left(fraction))
        self._time_networks()
        end = self.budget.elapsed() + _FIRST_PASS * self.budget.seconds_left()
        waiting += self._first_pass(self.networks, end)
        self._second_pass()
        waiting = self._first_pass(waiting)
        variants = self._variants()
        self._first_pass(variants)
        self.result.nested &= not any(c.name in self.result.n_trainings for c in variants)
        self._second_pass()
        if not self.result.complete(self.trials.n_subjects):  # Too short for a pass: as many folds as fit.
            self._train((c, k) for c in waiting for k in self.first_folds)

    def _first_pass(self, candidates, end=float("inf")):
        """Train candidates on the folds that test every subject once; return those that do not fit before the end."""
        waiting = []

        def items(block):
            for candidate in block:
                if self._fits_first_folds(candidate, end):
                    yield from ((candidate, k) for k in self.first_folds)
                else:
                    waiting.append(candidate)

        # A fleet takes all of its trainings at once, so the time is looked at between candidates.
        for block in [[c] for c in candidates] if self.on_gpu else [candidates]:
            self._train(items(block))
        return waiting

    def _fits_first_folds(self, candidate, end):
        n_missing = sum(not self._is_done(candidate, k) for k in self.first_folds)
        rounds = n_missing if self._is_fleet(candidate) else -(-n_missing // self.n_workers)
        seconds = rounds * self._expected(candidate)
        in_time = self.budget.elapsed() + seconds <= end and seconds <= self.budget.seconds_left()
        return in_time and n_missing <= self.budget.trainings_left()

    def _second_pass(self):
        """Train the candidates that hold most of the weight on the other folds, fold by fold."""
        finalists = self.result.select_finalists(self.trials.n_subjects)
        if not finalists:
            return
        weights = choose_weights(*self.result.heldout.for_final_weights(finalists))
        order = np.argsort(-weights, kind="stable")
        n_top = 1 + np.searchsorted(weights[order].cumsum(), _TOP_WEIGHT)
        # In the order of the finalists: which of them gets the last fold is not decided by scores.
        names = [finalists[i] for i in sorted(order[:n_top])]
        before = len(self.result.models)
        blocks = (
            np.array_split(self.other_folds, len(self.other_folds)) if self.on_gpu else [self.other_folds]
        )
        for folds in blocks:
            self._train((self.result.candidates[name], int(k)) for k in folds for name in names)
        if len(names) < len(finalists) and len(self.result.models) > before:
            self.result.nested = False

    def _variants(self):
        """Return censored variants of the best uncensored network that is not the paper's protocol."""
        names = [c.name for c in self.networks if self.result.heldout.probabilities.get(c.name)]
        networks = [self.result.candidates[name] for name in names]
        networks = [c for c in networks if not {"penalty", "protocol"} & c.spec.keys()] or networks
        # Without one of four subjects and its partner, a training has two subjects to tell apart.
        if not self.censored or not networks or self.trials.n_subjects < 4:
            return []
        most = max(len(self.result.heldout.probabilities[c.name]) for c in networks)
        networks = [c for c in networks if len(self.result.heldout.probabilities[c.name]) == most]
        best = min(networks, key=lambda c: self.result.heldout.loss(c.name))
        return [c for c in censored_candidates(best) if c.name not in self.result.candidates]

    def _train(self, items, fraction=1.0):
        """Train candidates on folds, in order, as far as time and number of trainings allow."""
        fold_of = {}

        def trainings():
            planned = 0.0  # seconds of trainings that a fleet takes together
            for candidate, fold in items:
                if self._is_done(candidate, fold) or self.budget.trainings_left() < 1:
                    continue
                seconds = self._expected(candidate)
                if planned + seconds > self.budget.seconds_left(fraction):
                    continue
                planned += seconds if self._is_fleet(candidate) else 0.0
                self.budget.n_trained += 1
                self.result.candidates[candidate.name] = candidate
                training = self.trials.training(candidate, fold, self.cost.steps(candidate))
                fold_of[training] = fold
                yield training

        for result in self.run_trainings(trainings(), until=self._give_up_time()):
            self.result.record(result, fold_of[result.training])
            self.cost.correct(self.result.candidates[result.training.name], result)
            self.report(result, self.result)

    def _is_done(self, candidate, fold):
        result = self.result
        return candidate.name in result.errors or (candidate.name, fold) in result.models

    def _is_fleet(self, candidate):
        return self.on_gpu and candidate.kind == "network"

    # Costs are predicted only where there is a time limit.

    def _expected(self, candidate):
        """Return the seconds that a training should take."""
        if self.budget.limit is None:
            return 0.0
        if candidate.kind == "network":
            return _MARGIN * self.cost.seconds(candidate)
        n_trained = self.result.n_trainings.get(candidate.name, 0)
        if n_trained:
            return _MARGIN * self.result.seconds[candidate.name] / n_trained
        # A candidate costs at most as the slowest so far, once for each of its bands.
        trained = [self.result.seconds[name] / n for name, n in self.result.n_trainings.items()]
        return max(trained, default=0.0) * len(candidate.spec.get("bands", [0]))

    def _time_networks(self):
        """Measure the first network that can be trained, and choose one fraction of the steps for all networks."""
        if self.budget.limit is None:
            return
        n_together = self.trials.n_first_folds if self.on_gpu else 1
        for candidate in self.networks:
            few, many = _TIMED_FLEET_STEPS if self.on_gpu else _TIMED_STEPS
            # The first run warms up.
            _, short, long = (self._time(candidate, steps, n_together) for steps in (few, few, many))
            if self.budget.seconds_left() <= 0:
                return
            if candidate.name not in self.result.errors:
                self.cost.measure(candidate, few, short, many, long)
                break
        n_rounds = len(self.first_folds) / (1 if self.on_gpu else self.n_workers)
        for fraction in _FRACTIONS:
            self.cost.fraction = fraction
            seconds = n_rounds * sum(map(self._expected, self.networks[:_FIRST_NETWORKS]))
            if seconds <= _FIRST_PASS * self.budget.seconds_left():
                break

    def _time(self, candidate, steps, n_together):
        """Return the seconds of one of some trainings with few steps; an error ends the candidate."""
        if candidate.name in self.result.errors:
            return 0.0
        trainings = [self.trials.training(candidate, k, steps) for k in range(n_together)]
        began = time.perf_counter()
        for result in run(trainings, self.trials.data, until=self._give_up_time()):
            if result.error is not None and not result.out_of_time:
                self.result.candidates[candidate.name] = candidate
                self.result.errors[candidate.name] = result.error
        return (time.perf_counter() - began) / n_together

    def _give_up_time(self):
        limit = self.budget.limit
        return None if limit is None else time.time() + _GRACE * limit - self.budget.elapsed()

    def _raise_no_finalist(self):
        details = "; ".join(f"{name}: {error}" for name, error in self.result.errors.items())
        names = {candidate.name for candidate in [*self.classical, *self.networks]}
        if self.budget.limit is None or set(self.result.errors) >= names:
            raise ValueError(f"All candidates failed: {details}")
        raise ValueError(
            f"time_limit={self.budget.limit:g} s is too short for one training of any candidate. Allow more time."
            + (f" Some failed: {details}" if details else "")
        )


class _NetworkCost:
    """The seconds of a network's training: those of the first network, times how much larger a network is."""

    def __init__(self):
        self.overhead, self.per_step, self.size = 0.0, None, 1.0
        self.fraction = None  # of the steps of a full training
        # The ratio of actual to predicted seconds: trainings side by side slow each other down.
        self.scale = 1.0

    def measure(self, candidate, few, short, many, long):
        """Take the seconds of two timing runs."""
        self.per_step = max((long - short) / (many - few), 0.1 * long / many)
        self.overhead, self.size = max(long - many * self.per_step, 0.0), _relative_size(candidate)

    def steps(self, candidate):
        """Return the steps of a training; None for all."""
        if self.fraction is None or candidate.kind != "network":
            return None
        return min(candidate.steps, max(_FEWEST_STEPS, round(self.fraction * candidate.steps)))

    def seconds(self, candidate):
        """Return the seconds of a training, infinite before any network was measured."""
        if self.per_step is None:
            return float("inf")
        return self.scale * self._predicted(candidate)

    def correct(self, candidate, result):
        """Move the scale towards the ratio that a finished training shows."""
        if self.per_step is not None and candidate.kind == "network" and result.error is None:
            self.scale = 0.5 * (self.scale + result.seconds / self._predicted(candidate))

    def _predicted(self, candidate):
        factor = _relative_size(candidate) / self.size
        return factor * (self.overhead + self.per_step * self.steps(candidate))


def _relative_size(candidate):
    """Return by which factor a step takes longer than one of an uncensored EEGNet with eight filters."""
    size = candidate.spec.get("F1", 8) / 8 * (1 if candidate.spec["network"] == "EEGNet" else 3)
    return size * (_CENSORING_COST if candidate.spec.get("penalty") else 1)
