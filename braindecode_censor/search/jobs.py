"""The trainings to be done, and doing them: here, in processes, or on a Dask cluster."""

from contextlib import nullcontext
from dataclasses import dataclass

import joblib
import numpy as np

from braindecode_censor._check import check_choice, check_size
from braindecode_censor.search.candidates import Setting
from braindecode_censor.storage.trainings import train, training_key
from braindecode_censor.training.classifier import CensoredEEGClassifier

__all__ = ["Backend", "Job", "make_estimator"]

# How often in a row a cluster may lose its workers before a single training is finished.
PATIENCE = 3


@dataclass(frozen=True)
class Job:
    """One training.

    Parameters
    ----------
    setting : Setting
        How.
    seed : int
        Seed.
    test_subject : object
        Whose trials are left out.
    valid_subject : object
        Who validates; "rotate" is the successor of the test subject.
    """

    setting: Setting
    seed: int
    test_subject: object
    valid_subject: object = "rotate"


def make_estimator(setting, seed, training, roster, valid_subject="rotate"):
    """Return the classifier of a setting.

    Parameters
    ----------
    setting : Setting
        How to censor.
    seed : int
        Seed.
    training : dict
        Arguments that all trainings share.
    roster : list
        All subjects of the dataset.
    valid_subject : object
        Who validates.

    Returns
    -------
    clf : CensoredEEGClassifier
        Not fitted.
    """
    return CensoredEEGClassifier(
        **{**training, **setting.parameters()},
        random_state=seed,
        roster=list(roster),
        valid_subject=valid_subject,
    )


@dataclass
class Backend:
    """Where trainings run.

    Parameters
    ----------
    jobs : int
        How many at a time, on this machine.
    name : {"local", "dask"}
        This machine's processes or a Dask cluster.
    scheduler : str or None
        Address of the Dask scheduler.
    engine : {"sequential", "fleet"}
        One training after another (in every process), or all of one graph at once, see
        :func:`~braindecode_censor.fleet.train_fleet`. On a CPU, `jobs` processes train a fleet each.
    """

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
        if self.engine == "fleet" and self.name == "dask":
            raise ValueError("engine='fleet' trains on this machine: use it with backend='local'.")

    def run(self, jobs, recording, training, memory, progress=None, trials=None):
        """Do the trainings that are not done yet, each written down as soon as it is finished.

        Parameters
        ----------
        jobs : list of Job
            Trainings wanted.
        recording : Recording
            The data.
        training : dict
            Arguments that all trainings share.
        memory : Memory
            Where finished trainings lie.
        progress : callable or None
            Called with (job, record) for every training, at once for those that were finished before.
        trials : dict of Job to optuna.Trial or None
            Trials that may cut their training short.

        Returns
        -------
        records : dict of Job to dict
            One per job; of one that was cut short only ``pruned``, and nothing is written down.
        """
        records, waiting = {}, {}
        for job in dict.fromkeys(jobs):
            seen = recording.subjects != job.test_subject
            clf = make_estimator(job.setting, job.seed, training, recording.roster, job.valid_subject)
            key = training_key(clf, recording.subjects[seen], recording.digests)
            record = memory.read(key)
            if record is None:
                waiting.setdefault(key, (clf, seen, []))[2].append(job)
                continue
            records[job] = record
            progress and progress(job, record)
        trials = trials or {}
        tasks = [(key, clf, seen, trials.get(mine[0])) for key, (clf, seen, mine) in waiting.items()]
        for key, done in self._train_all(tasks, recording, memory):
            if isinstance(done, dict):  # written by the process that trained it
                record = done
            else:
                record = done.record if "pruned" in done.record else memory.write(key, done)
            for job in waiting[key][2]:
                records[job] = record
                progress and progress(job, record)
        return {job: records[job] for job in dict.fromkeys(jobs)}  # not in the order in which they finished

    def _train_all(self, tasks, recording, memory):
        data = (recording.X, recording.y, recording.subjects)
        if self.engine == "fleet":  # Optuna cannot cut these short
            yield from self._fleets(
                [(key, clf, np.flatnonzero(seen)) for key, clf, seen, _ in tasks], data, memory
            )
            return
        if self.name == "local" and (self.jobs == 1 or len(tasks) < 2):
            for task in tasks:
                yield _train(*task, *data)
            return
        waiting = {task[0]: task for task in tasks}
        failures = 0
        while waiting:
            try:
                for key, done in self._pool(waiting.values(), data):
                    del waiting[key]
                    failures = 0
                    yield key, done
            except self._losses() as error:
                # A worker died with what only it held, data that were sent to it included: send the rest again.
                failures += 1
                if failures == PATIENCE:
                    raise RuntimeError(
                        f"the Dask cluster at {self.scheduler} lost its workers {PATIENCE} times in a row without "
                        "finishing a training: look at their logs (memory?), then `autotransfer resume`."
                    ) from error

    def _fleets(self, tasks, data, memory):
        from braindecode_censor.fleet.packing import share_out
        from braindecode_censor.fleet.trainings import train_all, train_and_write

        folder = memory.folder / "fleet"
        shares = share_out(tasks, self.jobs)
        if len(shares) < 2:
            yield from train_all(tasks, *data, folder=folder, threads=self.jobs)
            return
        with self._context():
            pool = joblib.Parallel(n_jobs=self.jobs, return_as="generator_unordered", batch_size=1)
            for finished in pool(
                joblib.delayed(train_and_write)(share, *data, memory=memory, folder=folder)
                for share in shares
            ):
                yield from finished

    def _pool(self, tasks, data):
        with self._context():
            # Unordered and one by one: a finished training must not wait for its neighbours to be written.
            pool = joblib.Parallel(
                n_jobs=-1 if self.name == "dask" else self.jobs,
                return_as="generator_unordered",
                batch_size=1,
                pre_dispatch="all" if self.name == "dask" else "2*n_jobs",
            )
            yield from pool(joblib.delayed(_train)(*task, *data) for task in list(tasks))

    def _losses(self):
        if self.name == "local":
            return ()
        from dask.distributed import KilledWorker
        from distributed.client import CancelledError

        return CancelledError, KilledWorker

    def _context(self):
        if self.name == "local":
            # one core each; the workers would otherwise start a thread per core for BLAS
            return joblib.parallel_config("loky", inner_max_num_threads=1) if self.jobs > 1 else nullcontext()
        from dask.distributed import Client

        if self._client is None:
            try:
                self._client = Client(self.scheduler, timeout=10, set_as_default=False)
            except (OSError, ValueError) as error:
                raise ValueError(f"scheduler={self.scheduler!r} does not answer: {error}.") from None
        return joblib.parallel_config("dask", client=self._client)

    def close(self):
        """Hang up on the Dask cluster, which goes on living."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _train(key, clf, seen, trial, X, y, subjects):
    seen = np.flatnonzero(seen)
    return key, train(clf, X[seen], y[seen], subjects[seen], trial)
