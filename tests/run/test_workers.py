"""What workers share: measures of the user's own, one cache for several threads, and the life of their parent."""

import os
import threading

import numpy as np
import pytest
from people import mixed_people

from braindecode_censor.classical import estimator as classical
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.penalties.measures.mmd import MMD
from braindecode_censor.run.backends import end_with
from braindecode_censor.run.pair_data import PairData
from braindecode_censor.run.pair_runner import Task, _train_task
from braindecode_censor.search.family import find_candidates
from braindecode_censor.search.folds import make_pairs

NETWORK = {
    "name": "sharp",
    "network": "EEGNet",
    "F1": 2,
    "D": 1,
    "kernel": 0.1,
    "penalty": "sharp",
    "weight": 0.1,
}


class Sharp(MMD):
    """MMD under another name."""


def test_a_worker_that_does_not_know_a_measure_of_the_users_own_is_told(monkeypatch):
    monkeypatch.setitem(MEASURES, "sharp", Sharp)
    (candidate,), _ = find_candidates([NETWORK])
    X, y, subjects = mixed_people(5)
    data = PairData(X, y, subjects - 1, make_pairs(5), "none")
    task, known = Task(candidate, [0], 2), dict(MEASURES)
    del MEASURES["sharp"]  # as in a new process
    _, (outcome,) = _train_task(0, task, data, None, {})
    assert "'sharp' is unknown" in outcome.error
    _, (outcome,) = _train_task(0, task, data, None, known)
    assert outcome.error is None and np.isfinite(outcome.first).all()


def test_a_process_that_works_for_itself_does_not_end_itself(monkeypatch):
    monkeypatch.setattr(os, "_exit", lambda status: pytest.fail("the process would have ended"))
    end_with(os.getpid())
    assert not any(thread.name == "end_with" for thread in threading.enumerate())


def test_several_threads_share_the_cache_of_features(monkeypatch):
    monkeypatch.setattr(classical, "_CACHE_BYTES", 3 * 80)  # room for three
    cache, errors = classical._Cache(), []

    def work(seed):
        try:
            for k in np.random.default_rng(seed).integers(0, 9, 3000):
                np.testing.assert_array_equal(cache.get(k, lambda k=k: np.full(10, k)), np.full(10, k))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(cache.kept) == 3
