"""Running trainings: in this process, in processes, on a Dask client, or as fleets where the device is a GPU.

Whatever the store has is not trained again, and whatever is finished is stored at once. Deadlines, lost workers and
the end of the calling process are handled here and nowhere else.
"""

import os
import time
import warnings
from collections import deque
from itertools import count, islice
from pickle import PicklingError

import joblib
import torch
from sklearn.base import clone

from braindecode_censor.run.fit import collect, fit_training
from braindecode_censor.run.model import is_network
from braindecode_censor.run.training import TrainingResult
from braindecode_censor.run.workers import add_parts, end_with, own_parts

__all__ = ["count_workers", "run"]

_PATIENCE = 3  # times in a row that a cluster may lose its workers before a single training is finished


def run(trainings, data, store=None, n_jobs=1, client=None, until=None):
    """Yield a result per training: first those that the store has, then the others as they finish.

    Parameters
    ----------
    trainings : iterable of Training
        Taken one by one as workers become free, so that a generator may decide late what comes next. On a GPU all of
        them are taken at once.
    data : TrialData
        The trials.
    store : Store or None
        Where finished trainings are kept.
    n_jobs : int
        Trainings at a time in processes of this machine; -1 is one per core. Networks on a GPU are fleets instead.
    client : dask.distributed.Client or None
        Cluster to train on instead.
    until : float or None
        When networks are given up that are still training, by ``time.time()``.
    """
    yield from _Runner(data, store, n_jobs, client, until).run(trainings)


def count_workers(n_jobs=1, client=None):
    """Return how many trainings run at a time."""
    if client is not None:
        return max(1, sum(client.nthreads().values()))
    return joblib.effective_n_jobs(n_jobs)


def is_for_fleet(estimator, data):
    """Return whether an estimator is trained together with many others."""
    if not _is_on_gpu(estimator):
        return False
    from braindecode_censor.fleet.compat import sequential_reason

    try:
        return sequential_reason(estimator, data.X, data.y) is None
    except (ValueError, RuntimeError, TypeError):
        return False  # One that cannot even be built fails where it is trained.


def _is_on_gpu(estimator):
    return is_network(estimator) and torch.device(estimator.device).type == "cuda"


class _Runner:
    def __init__(self, data, store, n_jobs, client, until):
        self.data, self.store, self.client, self.until = data, store, client, until
        self.n_jobs = count_workers(n_jobs, client)
        self.stored, self.fleet, self.on_gpu = deque(), [], []

    def run(self, trainings):
        for result in self._train_each(self._unfinished(trainings)):
            yield from self._from_store()
            yield self._keep(result)
        yield from self._from_store()
        for training in self.on_gpu:  # Processes do not share a GPU.
            yield self._keep(fit_training(training, self.data, self.until))
        for result in self._train_fleet(self.fleet):
            yield self._keep(result)

    def _unfinished(self, trainings):
        """Yield the trainings for workers; put aside those that the store has and those for the GPU."""
        for training in trainings:
            key = self._key(training)
            content = None if key is None else self.store.read(key)
            if content is not None:
                self.stored.append(TrainingResult.from_bytes(training, content))
            elif is_for_fleet(training.estimator, self.data):
                self.fleet.append(training)
            elif _is_on_gpu(training.estimator) and self.client is None:
                self.on_gpu.append(training)
            else:
                yield training

    def _key(self, training):
        return None if self.store is None else training.key(self.data)

    def _from_store(self):
        while self.stored:
            yield self.stored.popleft()

    def _keep(self, result):
        """Store a result that another run would repeat: a model, or a loss that was not finite."""
        key = self._key(result.training)
        if key is not None and (result.error is None or result.diverged):
            self.store.write(key, result.to_bytes(), seconds=result.seconds)
        return result

    def _train_each(self, trainings):
        if self.n_jobs == 1 and self.client is None:
            for training in trainings:
                yield fit_training(training, self.data, self.until)
            return
        running, numbers = {}, count()

        def numbered():
            yield from list(running.items())  # those that were lost with their workers
            for training in trainings:
                number = next(numbers)
                running[number] = training
                yield number, training

        def work():
            if self.client is None:
                results = self._pool(numbered())
            else:
                results = self._on_cluster(_fit_in_worker, numbered())
            for number, result in results:
                result.training = running.pop(number)
                yield result

        yield from self._until_nothing_is_lost(work)

    def _pool(self, numbered):
        options = {"inner_max_num_threads": 1, "initializer": end_with, "initargs": (os.getpid(),)}
        with joblib.parallel_config("loky", **options):
            pool = joblib.Parallel(
                n_jobs=self.n_jobs,
                return_as="generator_unordered",
                batch_size=1,
                pre_dispatch=self.n_jobs,  # so that the next training is taken when a worker is free, not before
            )
            shared = self.data, self.until, own_parts()
            work = (joblib.delayed(_fit_in_worker)(k, training, *shared) for k, training in numbered)
            try:
                yield from pool(work)
            except PicklingError as error:  # joblib writes large arrays to a file, for all workers.
                reason = "; ".join(
                    [line for line in str(error.__cause__).splitlines() if "Error" in line][-1:]
                )
                raise ValueError(
                    f"n_jobs={self.n_jobs}: trials or candidates cannot be passed to the workers ({reason}). If "
                    "the disk is full, set JOBLIB_TEMP_FOLDER to a folder with space, or pass n_jobs=1."
                ) from error

    def _on_cluster(self, function, numbered):
        """Yield the results of a function of a number and some work, which is taken when a worker is free."""
        from dask.distributed import as_completed

        if not self.client.nthreads():
            warnings.warn("client: the Dask cluster has no workers: waiting for one.", stacklevel=2)
        self.client.wait_for_workers(1)
        data = self.client.scatter([self.data], broadcast=True, hash=False)[0]
        shared = data, self.until, own_parts()
        numbered, running = iter(numbered), as_completed(loop=self.client.loop)

        def submit(n):
            for number, work in islice(numbered, n):
                running.add(self.client.submit(function, number, work, *shared, pure=False))

        submit(self.n_jobs)
        for future in running:
            result = future.result()
            submit(1)
            yield result

    def _until_nothing_is_lost(self, work):
        """Repeat what remains of some work when workers of the cluster are lost with it."""
        failures = 0
        while True:
            try:
                for result in work():
                    failures = 0
                    yield result
                return
            except _lost_workers(self.client) as error:
                failures += 1
                if failures == _PATIENCE:
                    raise ConnectionError(
                        f"client: the Dask cluster lost its workers {_PATIENCE} times in a row without finishing a "
                        "training: look at their logs (memory?), then start again; finished trainings are kept."
                    ) from error

    def _train_fleet(self, trainings):
        """Train networks together; if that fails, each candidate by itself, so that one cannot spoil the others."""
        if not trainings:
            return
        finished = set()
        try:
            replicas = self._fleet_on_cluster if self.client is not None else self._fleet_here
            for result in replicas(trainings):
                finished.add(id(result.training))
                yield result
        except (ValueError, RuntimeError) as error:
            remaining = [training for training in trainings if id(training) not in finished]
            names = dict.fromkeys(training.name for training in remaining)
            if len(names) > 1:
                for name in names:
                    yield from self._train_fleet([t for t in remaining if t.name == name])
                return
            message = f"{type(error).__name__}: {error}".splitlines()[0]
            yield from (TrainingResult(training, error=message) for training in remaining)

    def _fleet_here(self, trainings):
        folder = None if self.store is None else self.store.folder / "fleet"
        return _train_replicas(trainings, self.data, folder)

    def _fleet_on_cluster(self, trainings):
        """Train a chunk of the fleet on every worker."""
        size = -(-len(trainings) // max(1, len(self.client.nthreads())))
        remaining = {start: trainings[start : start + size] for start in range(0, len(trainings), size)}

        def work():
            yield from self._on_cluster(_fit_chunk, list(remaining.items()))

        for start, results in self._until_nothing_is_lost(work):
            for training, result in zip(remaining.pop(start), results):
                result.training = training
                yield result


def _lost_workers(client):
    """Return the errors by which Dask reports that workers are gone, with a task or with data that only they held."""
    if client is None:
        return ()
    from dask.distributed import KilledWorker
    from distributed.client import CancelledError

    return CancelledError, KilledWorker


def _fit_in_worker(number, training, data, until, parts):
    add_parts(parts)
    result = fit_training(training, data, until)
    result.training = None  # The caller has it.
    return number, result


def _fit_chunk(number, trainings, data, until, parts):
    add_parts(parts)
    results = {id(result.training): result for result in _train_replicas(trainings, data)}
    return number, [results[id(training)] for training in trainings]


def _train_replicas(trainings, data, folder=None):
    """Yield the results of networks that are trained as one; each gets its share of the time."""
    from braindecode_censor.fleet import train_fleet

    began, by_key = time.perf_counter(), {training.key(data): training for training in trainings}
    tasks = [(key, clone(t.estimator), data.rows(t.train)) for key, t in by_key.items()]
    for replica in train_fleet(tasks, data.X, data.y, data.subjects, folder=folder):
        training, seconds = by_key[replica.key], (time.perf_counter() - began) / len(tasks)
        if replica.error is None:
            yield collect(training, replica.clf, data, seconds)
        else:
            error = f"DivergedError: {replica.error}"
            yield TrainingResult(training, record={"seconds": seconds}, error=error)
