"""The search: classical candidates, networks by successive halving, censoring on top; within a budget."""

import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from math import ceil

import joblib
import numpy as np

from braindecode_censor.run.pair_runner import Task
from braindecode_censor.run.pair_trainings import quiet, unpack_model
from braindecode_censor.search.budget import Rung, choose_rung, count_rungs
from braindecode_censor.search.family import censored_candidates
from braindecode_censor.search.heldout import HeldOut
from braindecode_censor.search.pair_speed import Speed
from braindecode_censor.search.weights import balanced_loss
from braindecode_censor.trials.balance import balanced_weights

__all__ = ["PairSearch", "SearchResult", "retest"]

# Classical candidates may use so much of the time for trainings if there are networks, and networks may go on until so
# much of it is used if censoring follows.
_CLASSICAL, _NETWORKS = 0.3, 0.75
_CENSORED_COST = 1.4  # of a censored step, in plain ones; corrected by the first training
# The pairs of a round are trained in so many parts, to judge the time of a part by the one before.
_FLEET_BLOCKS = 3


@dataclass
class SearchResult:
    """What a search has found."""

    heldout: HeldOut
    models: dict = field(default_factory=dict)
    candidates: dict = field(default_factory=dict)
    finalists: list = field(default_factory=list)
    seconds: dict = field(default_factory=lambda: defaultdict(float))
    trainings: dict = field(default_factory=lambda: defaultdict(int))
    errors: dict = field(default_factory=dict)
    strict: bool = True
    interrupted: bool = False

    def loss(self, name):
        """Return the balanced held-out loss of a candidate."""
        if not self.heldout.found.get(name):
            return np.inf
        P, y, people = self.heldout.of_population([name])
        return float(balanced_loss(P[0, np.arange(len(y)), y], balanced_weights(y, people)))

    def forget(self, name):
        """Drop all that a candidate was trained for."""
        self.heldout.forget(name)
        for key in [key for key in self.models if key[0] == name]:
            del self.models[key]


class PairSearch:
    """Successive halving over candidates, judged by people they have not seen."""

    def __init__(self, data, candidates, censored, budget, runner, report=lambda outcome, result: None):
        self.data, self.candidates, self.censored = data, candidates, censored
        self.budget, self.runner, self.report = budget, runner, report
        self.speed = Speed(data, budget, runner)
        labels = [data.y[data.trials_of(person)] for person in range(data.n_people)]
        self.result = SearchResult(HeldOut(labels, data.pairs))
        self.costs, self.steps, self.expected, self.longer = {}, {}, {}, {}

    def run(self):
        """Search."""
        result = self.result
        quick = [c for c in self.candidates if c.kind != "network"]
        networks = [c for c in self.candidates if c.kind == "network"]
        finalists = []
        try:
            finalists += self._quick(quick, self._share_of_quick(quick, networks))
            finalists += self._halve(networks, _NETWORKS if self.censored else 1.0)
            if self.censored:
                finalists += self._censor(networks)
            if self.budget.limit is not None:
                finalists += self._quick(quick, 1.0)  # with what is left of the time
        except KeyboardInterrupt:
            if not result.models:
                raise
            result.interrupted, result.strict = True, False
            finalists = list(result.heldout.found)
        result.finalists = self._comparable(finalists)
        if not result.finalists:
            self._complain()
        return result

    def _complain(self):
        told = "; ".join(f"{name}: {error}" for name, error in self.result.errors.items())
        if self.budget.limit is None or set(self.result.errors) >= set(self.result.candidates):
            raise ValueError(f"every candidate failed. {told}")
        raise ValueError(
            f"time_limit={self.budget.limit:g} s is too short for one training of any candidate; "
            f"{self.budget.elapsed():.1f} s were spent measuring their speed. Allow more time."
            + (f" Some failed: {told}" if told else "")
        )

    def _comparable(self, names):
        """Keep the candidates that share enough pairs to be compared: as the best one has.

        Enough for the best of them is enough for all, and when everybody has been tested once it is enough anyway. Who
        is best is asked of people whom all have tested, half of them and six at least, so that nobody wins by luck.
        """
        found = self.result.heldout.found
        counts = {name: len(found[name]) for name in dict.fromkeys(names) if found.get(name)}
        if not counts:
            return []
        once = ceil(self.data.n_people / 2)
        fewest = min(once, max(3, once / 2), max(counts.values()))
        known = self._sharing([name for name, count in counts.items() if count >= fewest])
        P, y, people = self.result.heldout.of_population(known)
        best = known[balanced_loss(P[:, np.arange(len(y)), y], balanced_weights(y, people)).argmin()]
        kept = self._sharing([name for name, count in counts.items() if count >= min(once, counts[best])])
        self.result.strict &= len(kept) == len(counts)  # the best one's scores say how many pairs are enough
        return kept

    def _sharing(self, names):
        """Leave out those with the fewest pairs until the others have one in common."""
        heldout = self.result.heldout
        left = sorted(names, key=lambda name: -len(heldout.found[name]))
        while not heldout.shared_pairs(left):
            left.pop()
        return [name for name in names if name in left]

    # What is trained is noted here, whoever trained it.

    def _note(self, outcome):
        result, name = self.result, outcome.candidate
        self.budget.trained += 1
        result.seconds[name] += outcome.seconds
        result.trainings[name] += 1
        if outcome.error is not None:
            result.errors[name] = outcome.error
            result.forget(name)
        elif name not in result.errors:
            if self.steps.setdefault(name, outcome.steps) == outcome.steps:
                self._keep(outcome)
            else:  # trained anew, with more steps
                self._renew(outcome)
            cost = self.costs.get(name)
            if cost is not None and outcome.steps:  # several trainings side by side are slower than one alone
                cost.per_step = max(outcome.seconds - cost.overhead, 1e-6) / outcome.steps
        self.report(outcome, result)

    def _keep(self, outcome):
        name, position = outcome.candidate, outcome.position
        self.result.heldout.add(name, position, outcome.first, outcome.second)
        self.result.models[name, position] = outcome.model

    def _renew(self, outcome):
        """Put longer trainings in the place of shorter ones, but not before they have tested as many people."""
        name = outcome.candidate
        longer = self.longer.setdefault((name, outcome.steps), {})
        longer[outcome.position] = outcome
        if len(longer) >= min(len(self.result.heldout.found[name]), ceil(self.data.n_people / 2)):
            self.result.forget(name)
            self.steps[name] = outcome.steps
            for each in self.longer.pop((name, outcome.steps)).values():
                self._keep(each)

    def _known(self, candidates):
        for candidate in candidates:
            self.result.candidates[candidate.name] = candidate

    def _good(self, candidates):
        return [c for c in candidates if c.name not in self.result.errors]

    # Classical candidates cost little, and all of them are trained.

    def _share_of_quick(self, quick, networks):
        if not networks:
            return 1.0
        if self.budget.max_trainings is None:
            return _CLASSICAL
        return (_NETWORKS if self.censored else 1.0) * len(quick) / len(quick + networks)

    def _quick(self, candidates, until):
        self._known(candidates)
        if not candidates:
            return []
        n_pairs = len(self.data.pairs)
        if self.budget.max_trainings is not None:
            # Candidates that would not be trained once are left out.
            room = max(1, self.budget.trainings_left(until))
            candidates = candidates[:room]
            n_pairs = min(n_pairs, room // len(candidates))
        if self.budget.limit is not None:
            self._probe(candidates, self.budget.elapsed() + self.budget.left(until) / 2)
            candidates = [c for c in candidates if c.name in self.expected]
            candidates.sort(key=lambda c: self.expected[c.name])  # many cheap ones before a dear one
            until = self._long_enough(candidates, until)
        once = min(n_pairs, ceil(self.data.n_people / 2))
        for positions in (range(once), range(once, n_pairs)):  # first everybody's first pairs
            tasks = []
            for candidate in self._good(candidates):
                known = self.result.heldout.found.get(candidate.name, {})
                tasks.append(Task(candidate, [p for p in positions if p not in known]))
            for outcome in self.runner.run(
                [t for t in tasks if t.positions], lambda t: self._with_deadline(t, until)
            ):
                self._note(outcome)
        return [c.name for c in self._good(candidates)]

    def _probe(self, candidates, end):
        """Measure speeds until a time; what is not measured by then has to wait."""
        for candidate in candidates:
            if candidate.name not in self.expected and self.budget.elapsed() < end:
                self.expected[candidate.name] = self.speed.probe(candidate)

    def _long_enough(self, candidates, until):
        """Give this stage all the time if nothing has been trained yet and its own share is too short for anything."""
        if (
            not candidates
            or self.result.models
            or self.expected[candidates[0].name] <= self.budget.left(until)
        ):
            return until
        return 1.0

    def _with_deadline(self, task, until):
        if self.budget.limit is None:
            return task
        deadline = time.time() + self.budget.left(until)
        return replace(task, deadline=deadline, expected=self.expected[task.candidate.name])

    # Networks are halved.

    def _halve(self, candidates, until, like=None):
        """Train the better half of the candidates longer, again and again, and return those that are left."""
        self._known(candidates)
        if self.budget.limit is not None:
            costs, errors = self.speed.measure_all(candidates, like)
            self.costs |= costs
            self.result.errors |= errors
            candidates = [c for c in candidates if c.name in self.costs]
        candidates = self._good(candidates)
        if not candidates:
            return []
        rungs = 1 if self._everything_fits(candidates, until) else count_rungs(len(candidates))
        for left in range(rungs, 0, -1):
            rung = self._choose(candidates, until, left) if candidates else None
            if rung is None:
                break
            self.result.strict &= rungs == 1 and rung.n_candidates == len(candidates)
            candidates = candidates[: rung.n_candidates]
            self._train_rung(candidates, rung, self.budget.elapsed() + self.budget.left(until) / left)
            candidates = sorted(self._good(candidates), key=lambda c: self.result.loss(c.name))
            if left > 1:
                candidates = candidates[: ceil(len(candidates) / 2)]
        return [c.name for c in candidates]

    def _everything_fits(self, candidates, until):
        if self.budget.max_trainings is not None:
            return len(candidates) * len(self.data.pairs) <= self.budget.trainings_left(until)
        if self.budget.limit is None:
            return True
        rung = self._choose(candidates, until, 1)
        everything = rung and rung.share == 1 and rung.n_pairs == len(self.data.pairs)
        return bool(everything) and rung.n_candidates == len(candidates)

    def _choose(self, candidates, until, rounds_left):
        n_pairs, last = len(self.data.pairs), rounds_left == 1
        if self.budget.max_trainings is not None:
            room = int(self.budget.trainings_left(until) / rounds_left)
            done = max((len(self.result.heldout.found.get(c.name, ())) for c in candidates), default=0)
            if room < 1:
                return None
            count = min(len(candidates), room)
            return Rung(count, min(n_pairs, max(1, done + room // count)), 1.0)
        if self.budget.limit is None:
            return Rung(len(candidates), n_pairs, 1.0)
        costs = [self.costs[c.name] for c in candidates]
        seconds = self.budget.left(until) / rounds_left
        alone = not self.result.heldout.found
        return choose_rung(costs, seconds, self.data.n_people, n_pairs, self.runner.network_jobs, last, alone)

    def _train_rung(self, candidates, rung, end):
        """Train all candidates of a round, as trainings should be finished by its end."""
        fleet = [c for c in candidates if self.runner.is_for_fleet(c)]
        alone = [c for c in candidates if c not in fleet]
        n_blocks = 1 if self.budget.limit is None else min(_FLEET_BLOCKS, rung.n_pairs)
        blocks = np.array_split(np.arange(rung.n_pairs), n_blocks) if fleet else []
        for block in blocks:
            tasks = [self._task(c, rung, block.tolist()) for c in fleet]
            if self.budget.elapsed() + sum(map(self._predict, tasks)) <= end:
                for outcome in self.runner.run_fleet(tasks):
                    self._note(outcome)
        # pair by pair, so that candidates stay comparable when time runs out
        tasks = [self._task(c, rung, [p]) for p in range(rung.n_pairs) for c in alone]

        def begin(task):
            failed = task.candidate.name in self.result.errors
            if failed or self.budget.elapsed() + self._predict(task) > end:
                return None
            return replace(task, give_up=self.speed.latest())

        for outcome in self.runner.run([task for task in tasks if task.positions], begin):
            self._note(outcome)

    def _task(self, candidate, rung, positions):
        name, steps = candidate.name, candidate.steps
        if self.budget.limit is not None:
            steps = self.costs[name].steps_of(rung.share)
        known = self.result.heldout.found.get(name, {}) if self.steps.get(name) == steps else {}
        return Task(candidate, [p for p in positions if p not in known], steps)

    def _predict(self, task):
        if self.budget.limit is None:
            return 0.0
        cost = self.costs[task.candidate.name]
        return len(task.positions) * (cost.overhead + cost.per_step * task.steps)

    # Censoring competes on top of the best network.

    def _censor(self, networks):
        tried = [c for c in self._good(networks) if self.result.heldout.found.get(c.name)]
        if self.data.n_people < 4:  # a training sees one person: there is nobody to tell apart
            return []
        tried = [
            c for c in tried if c.spec.get("penalty") is None and c.spec.get("protocol") is None
        ] or tried
        if not tried:
            return []
        most = max(len(self.result.heldout.found[c.name]) for c in tried)
        tried = [c for c in tried if len(self.result.heldout.found[c.name]) == most]
        base = min(tried, key=lambda c: self.result.loss(c.name))
        self.result.strict = False
        cost = self.costs.get(base.name)
        like = cost and (cost.overhead, _CENSORED_COST * cost.per_step)
        candidates = [c for c in censored_candidates(base) if c.name not in self.result.candidates]
        return self._halve(candidates, 1.0, like)


def retest(result, data, tests, n_jobs=1):
    """Let all models decode their people again, without training anything."""
    heldout = {name: HeldOut(result.heldout.labels, data.pairs) for name in tests}
    asked = (
        joblib.delayed(_ask)(result.candidates[name].kind, model, data, data.pairs[position], tests)
        for (name, position), model in result.models.items()
    )
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        answered = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(asked)
        for (name, position), answers in zip(result.models, answered):
            for test, both in answers.items():
                heldout[test].add(name, position, *both)
    return heldout


def _ask(kind, model, data, pair, tests):
    estimator, mine = unpack_model(kind, model), [data.trials_of(person) for person in pair]
    with quiet():
        return {name: [test(estimator, data.X[m], data.y[m]) for m in mine] for name, test in tests.items()}
