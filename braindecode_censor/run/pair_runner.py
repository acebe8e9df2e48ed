"""Doing trainings of pairs: here, in processes, on a Dask cluster, or many at once as a fleet on a GPU."""

import os
import time
from dataclasses import dataclass, replace

import joblib
import torch

from braindecode_censor.fleet import train_fleet
from braindecode_censor.fleet.compat import check_estimator, sizes_of, why_alone
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.run.backends import PATIENCE, lost_workers, prepare_worker
from braindecode_censor.run.pair_data import Outcome
from braindecode_censor.run.pair_trainings import quiet, test_on_pair, train_pairs

__all__ = ["PairRunner", "Task"]


@dataclass
class Task:
    """What one worker does in one go."""

    candidate: object
    positions: list
    steps: int | None = None
    deadline: float | None = None
    expected: float = 0.0
    give_up: float | None = None

    def do(self, data):
        """Train."""
        times = self.deadline, self.expected, self.give_up
        return train_pairs(self.candidate, self.positions, self.steps, data, *times)


class PairRunner:
    """Does trainings and keeps what is finished."""

    def __init__(self, data, store, n_jobs=1, client=None):
        self.data, self.store, self.client = data, store, client
        on_gpu = torch.device(data.device).type == "cuda"
        self.jobs = (
            joblib.effective_n_jobs(n_jobs) if client is None else max(1, sum(client.nthreads().values()))
        )
        self.has_fleet = on_gpu
        self.network_jobs = 1 if on_gpu and client is None else self.jobs  # processes do not share a GPU

    def is_for_fleet(self, candidate):
        """Tell whether a candidate is trained many at once."""
        if not self.has_fleet or candidate.kind != "network":
            return False
        try:
            estimator = self.data.make(candidate, 0)
            check_estimator(estimator)
            return why_alone(estimator, sizes_of(self.data.X, self.data.y)) is None
        except (ValueError, RuntimeError):  # one that cannot even be built fails where it is trained
            return False

    def run(self, tasks, begin=lambda task: task):
        """Do tasks, as they may be begun."""
        waiting = []
        for task in tasks:
            left = []
            for position in task.positions:
                known = self.store.read(task.candidate, position, task.steps, self.data)
                if known is None:
                    left.append(position)
                else:
                    yield known
            if left:
                waiting.append(replace(task, positions=left))
        candidates = {task.candidate.name: task.candidate for task in waiting}
        for outcomes in self._work(waiting, begin):
            for outcome in outcomes:
                self.store.write(candidates[outcome.candidate], outcome, self.data)
                yield outcome

    def _work(self, tasks, begin):
        allowed = (task for task in map(begin, tasks) if task is not None)
        networks = any(task.candidate.kind == "network" for task in tasks)
        jobs = self.network_jobs if networks else self.jobs
        if jobs == 1 and self.client is None:
            for task in allowed:
                yield task.do(self.data)
            return
        if self.client is None:
            yield from (outcomes for _, outcomes in self._pool(enumerate(allowed), jobs))
            return
        left = dict(enumerate(tasks))

        def work():
            begun = ((number, begin(task)) for number, task in list(left.items()))
            yield from self._pool(((number, task) for number, task in begun if task is not None), jobs)

        for number, outcomes in self._until_nothing_is_lost(work):
            del left[number]
            yield outcomes

    def _pool(self, tasks, jobs):
        context = self.data, os.getpid() if self.client is None else None, dict(MEASURES)
        with self._context():
            pool = joblib.Parallel(
                n_jobs=jobs,
                return_as="generator_unordered",
                batch_size=1,
                pre_dispatch=jobs,  # so that the next task is asked for when a worker is free, not before
            )
            yield from pool(joblib.delayed(_train_task)(number, task, *context) for number, task in tasks)

    def _until_nothing_is_lost(self, work):
        """Do what is left of some work as workers of the cluster are lost with it."""
        failures = 0
        while True:
            try:
                for found in work():
                    failures = 0
                    yield found
                return
            except lost_workers() as error:
                failures += 1
                if failures == PATIENCE:
                    raise ValueError(
                        f"client: the Dask cluster lost its workers {PATIENCE} times in a row without finishing a "
                        "training: look at their logs (memory?), then call fit again with the same folder."
                    ) from error

    def _context(self):
        if self.client is not None:
            return joblib.parallel_config("dask", client=self.client)
        return joblib.parallel_config("loky", inner_max_num_threads=1)

    def run_fleet(self, tasks, keep=True):
        """Do trainings of networks all at once."""
        try:
            yield from self._train_fleet(tasks, keep)
        except (ValueError, RuntimeError) as error:
            if len(tasks) > 1:
                for task in tasks:
                    yield from self.run_fleet([task], keep)
                return
            told = f"{type(error).__name__}: {error}".splitlines()[0]
            yield Outcome(tasks[0].candidate.name, tasks[0].positions[0], tasks[0].steps, error=told)

    def _train_fleet(self, tasks, keep):
        members, candidates, started = [], {}, time.perf_counter()
        for task in tasks:
            candidates[task.candidate.name] = task.candidate
            for position in task.positions:
                known = self.store.read(task.candidate, position, task.steps, self.data) if keep else None
                if known is not None:
                    yield known
                    continue
                outcome = Outcome(task.candidate.name, position, task.steps)
                estimator = self.data.make(task.candidate, position, task.steps)
                members.append((outcome, estimator, self.data.seen_without(position)))
        if not members:
            return
        found = _train_members(members, self.data) if self.client is None else self._on_cluster(members)
        for outcome in found:
            outcome = replace(outcome, seconds=(time.perf_counter() - started) / len(members))
            if keep:
                self.store.write(candidates[outcome.candidate], outcome, self.data)
            yield outcome

    def _on_cluster(self, members):
        """Train a share of the fleet on every worker."""
        from dask.distributed import as_completed

        size = -(-len(members) // max(1, len(self.client.nthreads())))
        left = {start: members[start : start + size] for start in range(0, len(members), size)}

        def work():
            self.client.wait_for_workers(1)
            data = self.client.scatter([self.data], broadcast=True, hash=False)[0]
            futures = {
                self.client.submit(_train_share, share, data, dict(MEASURES), pure=False): start
                for start, share in left.items()
            }
            for future in as_completed(list(futures), loop=self.client.loop):
                yield futures[future], future.result()

        for start, outcomes in self._until_nothing_is_lost(work):
            del left[start]
            yield from outcomes


def _train_task(number, task, data, parent, measures):
    prepare_worker(parent, measures)
    return number, task.do(data)


def _train_share(members, data, measures):
    prepare_worker(None, measures)
    return list(_train_members(members, data))


def _train_members(members, data):
    with quiet():
        for member in train_fleet(members, data.X, data.y, data.people):
            if member.error is None:
                yield test_on_pair(member.clf, member.key, data)
            else:
                yield replace(member.key, error=member.error)
