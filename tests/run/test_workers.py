"""Worker processes: the life of their parent, and one cache for several threads."""

import os
import threading

import numpy as np
import pytest

from braindecode_censor.classical import estimator as classical
from braindecode_censor.run.workers import end_with


def test_end_with_does_not_end_a_process_that_works_for_itself(monkeypatch):
    monkeypatch.setattr(os, "_exit", lambda status: pytest.fail("the process would have ended"))
    end_with(os.getpid())
    assert not any(thread.name == "end_with" for thread in threading.enumerate())


def test_end_with_ends_a_process_whose_parent_is_gone(monkeypatch):
    ended = []
    monkeypatch.setattr(os, "_exit", lambda status: ended.append(status) or (_ for _ in ()).throw(SystemExit))
    with pytest.raises(SystemExit):
        end_with(2**22 + 1)  # no such process
    assert ended == [1]


def test_threads_use_one_cache_of_features(monkeypatch):
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
