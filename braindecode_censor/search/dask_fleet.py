"""Shares of a fleet as tasks of a Dask cluster: trainings come back one by one, unfinished ones as checkpoints.

No disk is shared. A worker posts every finished training, and every checkpoint it writes, to a queue that the calling
process empties and keeps. When a worker is lost, what is left of its share is sent to another one with the last
checkpoint, so that only the epochs since then are trained again.
"""

import hashlib
import json
import pickle
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from braindecode_censor.fleet.member import graph_key
from braindecode_censor.fleet.trainings import train_all
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.storage.files import write_atomically

__all__ = ["Share", "make_shares", "train_on_cluster"]

# Members of a share at most: on a CPU more are not faster, on a GPU the engine takes what fits its memory.
_MOST = {"cpu": 8, "cuda": 512}
_LOOK = 0.2  # seconds between two looks at the queue, and at the checkpoints of a worker
_WORKERS = 120  # seconds within which a cluster that has lost all workers has to have one again
_ONE_AT_A_TIME = threading.Lock()  # in a worker with several threads, which all go to one share
_LIST = "share.json"


class LostShareError(RuntimeError):
    """A share was begun a second time by the scheduler, which does not know what is finished."""


@dataclass
class Share:
    """Trainings that one worker does as one fleet.

    Parameters
    ----------
    folder : Path
        Where its checkpoints are kept.
    left : dict of str to tuple
        Key to the training, as :func:`~braindecode_censor.fleet.train_fleet` takes it; without those finished.
    """

    folder: Path
    left: dict

    def checkpoints(self):
        """Return the content of its checkpoints.

        Returns
        -------
        contents : dict of str to bytes
            By file name.
        """
        return {path.name: path.read_bytes() for path in self.folder.glob("*.checkpoint")}

    def forget(self):
        """Remove its folder: everything is finished."""
        for path in self.folder.glob("*"):
            path.unlink()
        self.folder.rmdir()


def make_shares(tasks, n_workers, folder):
    """Share trainings out among workers; those that had begun stay with those they had begun with.

    Parameters
    ----------
    tasks : list of (str, CensoredEEGClassifier, ndarray)
        Key of the training, estimator, and positions of the trials it may see.
    n_workers : int
        Workers of the cluster.
    folder : Path
        Where checkpoints of earlier runs may lie.

    Returns
    -------
    shares : list of Share
        Each of one graph, and about as many as there are workers, or more.
    """
    waiting, shares = {task[0]: task for task in tasks}, []
    for path in sorted(Path(folder).glob(f"*/{_LIST}")):
        keys = [key for key in json.loads(path.read_bytes()) if key in waiting]
        share = Share(path.parent, {key: waiting.pop(key) for key in keys})
        if share.left:
            shares.append(share)
        else:
            share.forget()
    alike = {}
    for task in waiting.values():
        alike.setdefault(graph_key(task[1]), []).append(task)
    for together in alike.values():
        size = min(-(-len(tasks) // n_workers), _MOST[str(together[0][1].device).split(":")[0]])
        for start in range(0, len(together), size):
            left = {task[0]: task for task in together[start : start + size]}
            name = hashlib.sha256("\n".join(left).encode()).hexdigest()[:16]
            share = Share(Path(folder, name), left)
            write_atomically(share.folder / _LIST, json.dumps(list(left)).encode())
            shares.append(share)
    return shares


def train_on_cluster(client, tasks, data, folder, every=60.0, patience=3):
    """Train a fleet on a Dask cluster.

    Parameters
    ----------
    client : dask.distributed.Client
        Of the cluster. A worker trains one share at a time with all its threads, or on its GPU.
    tasks : list of (str, CensoredEEGClassifier, ndarray)
        Key of the training, estimator, and positions of the trials it may see.
    data : (ndarray, ndarray, ndarray)
        Trials, classes and subjects.
    folder : path-like
        Where checkpoints are kept, on the machine of the calling process.
    every : float
        Seconds between two checkpoints of a worker.
    patience : int
        How often in a row workers may be lost before anything is finished or saved.

    Yields
    ------
    key, training : str, Training
        As soon as each is finished; each once.
    """
    post = _Post(client, data, every)
    try:
        shares = make_shares(tasks, post.count_workers(), folder)
        running, failures = {share.folder.name: (share, post.send(share)) for share in shares}, 0
        while running:
            for kind, name, label, content in post.letters():
                failures = 0
                share, _ = running.get(name, (None, None))
                if share is None:
                    continue
                if kind == "checkpoint":
                    write_atomically(share.folder / label, content)
                elif share.left.pop(label, None) is not None:
                    yield label, pickle.loads(content)
            for name, (share, future) in list(running.items()):
                if not share.left:
                    share.forget()
                    del running[name]
                elif future.status in ("error", "cancelled", "lost"):
                    error = _error_of(future)
                    failures += 1
                    if failures > patience * len(running):
                        raise ConnectionError(
                            f"the Dask cluster lost its workers {failures} times in a row without finishing or saving "
                            "anything: look at their logs (memory?), then `autotransfer resume`."
                        ) from error
                    running[name] = share, post.send(share, anew=True)
    finally:
        post.close()


def _error_of(future):
    """Return why a task was lost; an error of the training itself is raised."""
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    if future.status != "error":
        return None
    error = future.exception()
    if isinstance(error, (LostShareError, KilledWorker, FutureCancelledError)):
        return error
    raise error


class _Post:
    """What the calling process has to do with the cluster: data and shares go out, letters come in."""

    def __init__(self, client, data, every):
        from distributed import Queue

        self.client, self.data, self.every = client, data, every
        self.name, self.tokens = f"fleet-{uuid4().hex}", []
        self.queue = Queue(self.name, client=client)
        self.there = self._scatter()

    def _scatter(self):
        self.client.wait_for_workers(1, timeout=_WORKERS)
        return self.client.scatter([self.data], broadcast=True, hash=False)[0]

    def count_workers(self):
        return max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))

    def send(self, share, anew=False):
        """Submit a share; the data once more, if they may have gone with a worker."""
        from distributed import Queue

        if anew and self.there.status != "finished":
            self.there = self._scatter()
        token = Queue(f"{self.name}-{uuid4().hex}", client=self.client)
        token.put(1)
        self.tokens.append(token)
        options = {"every": self.every, "measures": dict(MEASURES)}
        names = (self.name, token.name, share.folder.name)
        arguments = (list(share.left.values()), self.there, names, share.checkpoints())
        return self.client.submit(_train_share, *arguments, **options, key=token.name, pure=False)

    def letters(self):
        """Return what has arrived; where nothing has, after a moment."""
        if self.queue.qsize():
            return self.queue.get(batch=True)
        time.sleep(_LOOK)  # and not get with a timeout, of which the scheduler logs every one as an error
        return []

    def close(self):
        for queue in (self.queue, *self.tokens):
            queue.close()


def _train_share(tasks, data, names, checkpoints, every, measures):
    """Train a share, and post what is finished: what a worker does."""
    from distributed import Queue, get_client, get_worker

    client, (mail, token, share) = get_client(), names
    once = Queue(token, client=client)
    if not once.qsize():  # the scheduler sends the tasks of a lost worker again, as they were
        raise LostShareError("this share was begun before: the client sends what is left of it")
    once.get()
    MEASURES.update(measures)
    threads = get_worker().state.nthreads
    letters = Queue(mail, client=client)
    with _ONE_AT_A_TIME, tempfile.TemporaryDirectory() as folder:
        for name, content in checkpoints.items():
            Path(folder, name).write_bytes(content)
        with _posting(folder, letters, share):
            for key, done in train_all(tasks, *data, folder=folder, threads=threads, every=every):
                letters.put(("training", share, key, pickle.dumps(done)))


@contextmanager
def _posting(folder, letters, share):
    """Post every checkpoint that is written to a folder."""
    over, known = threading.Event(), {path: path.stat().st_mtime_ns for path in Path(folder).iterdir()}

    def watch():
        while not over.wait(_LOOK):
            for path in Path(folder).glob("*.checkpoint"):
                try:
                    stamp, content = path.stat().st_mtime_ns, path.read_bytes()
                except FileNotFoundError:  # its members have just finished
                    continue
                if known.get(path) != stamp:
                    known[path] = stamp
                    letters.put(("checkpoint", share, path.name, content))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
