"""Does a search over trials in a file find what it finds in memory?"""

import numpy as np
import pytest
from rhythms import simulate

from braindecode_censor import AutoTransferClassifier

NET = {"name": "net", "network": "EEGNet", "F1": 2, "D": 1, "max_steps": 4, "kernel": 0.1}
CANDIDATES = ["power", {"name": "evoked", "classical": "xdawn", "n_filters": 2}, NET]


@pytest.mark.filterwarnings("ignore")
def test_a_search_over_a_file_is_that_over_memory(tmp_path):
    X, y, subjects = simulate(n_subjects=4, n_trials=16, n_times=64)
    file = np.memmap(tmp_path / "X", np.float32, "w+", shape=X.shape)
    file[:] = X
    options = {"candidates": CANDIDATES, "max_trainings": 12, "device": "cpu", "verbose": 0}
    memory = AutoTransferClassifier(**options).fit(X, y, subjects=subjects)
    stays = AutoTransferClassifier(**options, folder=tmp_path / "kept")
    stays.fit(file, y, subjects=subjects)
    scores = [clf.leaderboard_.drop(columns="seconds", errors="ignore") for clf in (memory, stays)]
    assert scores[0].round(6).equals(scores[1].round(6))
    np.testing.assert_allclose(stays.predict_proba(file), memory.predict_proba(X), atol=1e-6)
