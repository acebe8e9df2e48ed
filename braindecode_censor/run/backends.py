"""Doing trainings: here, in processes of this machine, on a Dask cluster, or many at once as a fleet."""

import os
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass

import joblib
import numpy as np

from braindecode_censor._check import check_choice, check_size
from braindecode_censor.fleet.packing import share_out
from braindecode_censor.fleet.trainings import train_all, train_and_write
from braindecode_censor.paper.optuna_search import hide_password
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.run.train import train
from braindecode_censor.trials.stored import take_part

__all__ = ["Backend", "end_with", "lost_workers", "prepare_worker"]

# How often in a row a cluster may lose its workers before a single training is finished.
PATIENCE = 3
# Seconds within which a scheduler has to answer.
ANSWER = 10
_LOOK = 0.2  # seconds between two looks at whether the parent still lives


@dataclass
class Backend:
    """Where trainings run."""

    jobs: int = 1
    name: str = "local"
    scheduler: str | None = None
    engine: str = "sequential"

    def __post_init__(self):
        self._client = None
        check_size("jobs", self.jobs)
        check_choice("backend", self.name, ["local", "dask"])
        if self.name == "dask" and not self.scheduler:
            raise ValueError("backend='dask' needs scheduler='tcp://host:port' of a running Dask cluster.")
        check_choice("engine", self.engine, ["sequential", "fleet"])

    def run(self, jobs, recording, training, cache, progress=None, trials=None):
        """Do the trainings that are not done yet, each written down as it is finished."""
        records, waiting, trials = {}, {}, trials or {}
        for job in dict.fromkeys(jobs):
            key = job.key(recording, training)
            record = cache.read(key)
            if record is None:
                waiting.setdefault(key, []).append(job)
                continue
            records[job] = record
            progress and progress(job, record)
        tasks = [
            (key, mine[0].estimator(recording, training), mine[0].seen(recording), trials.get(mine[0]))
            for key, mine in waiting.items()
        ]
        data = (recording.X, recording.y, recording.subjects)
        for key, record in self.train(tasks, *data, cache):
            for job in waiting[key]:
                records[job] = record
                progress and progress(job, record)
        return {job: records[job] for job in dict.fromkeys(jobs)}  # not in the order in which they finished

    def train(self, tasks, X, y, subjects, cache):
        """Train and write down, without looking whether it was done before."""
        if self.engine == "fleet":
            yield from self._train_fleets(tasks, (X, y, subjects), cache)
            return
        for key, done in self._train_each(tasks, (X, y, subjects)):
            yield key, done.record if "pruned" in done.record else cache.write(key, done)

    def close(self):
        """Hang up on the Dask cluster, which goes on living."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _train_each(self, tasks, data):
        if self.name == "local" and (self.jobs == 1 or len(tasks) < 2):
            for task in tasks:
                yield _train_task(*task, *data)
            return
        waiting = {task[0]: task for task in tasks}
        failures = 0
        while waiting:
            try:
                for key, done in self._pool(list(waiting.values()), data):
                    del waiting[key]
                    failures = 0
                    yield key, done
            except self._losses() as error:
                # A worker died with what only it held, data that were sent to it included: send the rest again.
                failures += 1
                if failures == PATIENCE:
                    raise ConnectionError(  # which the shell prints as one line
                        f"the Dask cluster lost its workers {PATIENCE} times in a row without "
                        "finishing a training: look at their logs (memory?), then `autotransfer resume`."
                    ) from error

    def _pool(self, tasks, data):
        parent = os.getpid() if self.name == "local" else None
        with self._context():
            # Unordered and one by one: a finished training must not wait for its neighbours to be written.
            pool = joblib.Parallel(
                n_jobs=-1 if self.name == "dask" else self.jobs,
                return_as="generator_unordered",
                batch_size=1,
                pre_dispatch="all" if self.name == "dask" else "2*n_jobs",
            )
            yield from pool(
                joblib.delayed(_train_in_worker)(task, data, parent, dict(MEASURES)) for task in tasks
            )

    def _train_fleets(self, tasks, data, cache):
        tasks = [(key, clf, np.flatnonzero(seen)) for key, clf, seen, _ in tasks]
        folder = cache.folder / "fleet"
        if self.name == "dask":
            from braindecode_censor.search.dask_fleet import train_on_cluster  # Dask is an extra

            for key, done in train_on_cluster(self._connect(), tasks, data, folder, patience=PATIENCE):
                yield key, cache.write(key, done)
            return
        shares = share_out(tasks, self.jobs)
        if len(shares) < 2:
            for key, done in train_all(tasks, *data, folder=folder, threads=self.jobs):
                yield key, cache.write(key, done)
            return
        with self._context():
            pool = joblib.Parallel(n_jobs=self.jobs, return_as="generator_unordered", batch_size=1)
            for finished in pool(
                joblib.delayed(_train_share)(share, data, cache, folder, os.getpid(), dict(MEASURES))
                for share in shares
            ):
                yield from finished

    def _losses(self):
        if self.name == "local":
            return ()
        return lost_workers()

    def _context(self):
        if self.name == "local":
            # one core each; the workers would otherwise start a thread per core for BLAS
            return joblib.parallel_config("loky", inner_max_num_threads=1) if self.jobs > 1 else nullcontext()
        return joblib.parallel_config("dask", client=self._connect())

    def _connect(self):
        from dask.distributed import Client

        if self._client is None:
            try:
                self._client = Client(self.scheduler, timeout=ANSWER, set_as_default=False)
            except (OSError, ValueError) as error:
                text = f"scheduler={self.scheduler!r} does not answer: {error}."
                raise ValueError(hide_password(text, self.scheduler)) from None
        return self._client


def lost_workers():
    """Return the errors by which Dask tells that workers are gone, with a task or with data that only they held."""
    from dask.distributed import KilledWorker
    from distributed.client import CancelledError

    return CancelledError, KilledWorker


def end_with(parent):
    """End this process as its parent has ended, however that came about.

    Notes
    -----
    A process that is killed cannot tell its workers. Without this they would go on training beside the run that
    resumes, and repeat its work. A thread looks every fifth of a second, which works on Linux and macOS alike.
    """
    if parent == os.getpid() or any(thread.name == "end_with" for thread in threading.enumerate()):
        return

    def watch():
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, name="end_with", daemon=True).start()


def _train_task(key, clf, seen, trial, X, y, subjects):
    unseen, seen = X[np.flatnonzero(~seen)], np.flatnonzero(seen)
    return key, train(clf, take_part(X, seen), y[seen], subjects[seen], trial, unseen)


def _train_in_worker(task, data, parent, measures):
    prepare_worker(parent, measures)
    return _train_task(*task, *data)


def _train_share(share, data, cache, folder, parent, measures):
    prepare_worker(parent, measures)
    return train_and_write(share, *data, cache=cache, folder=folder)


def prepare_worker(parent, measures):
    """Make a process ready to train for another one."""
    MEASURES.update(measures)
    if parent is not None:
        end_with(parent)
