"""Censoring lowers subject leakage and keeps the accuracy of the task."""

import numpy as np
import pytest
from rhythms import simulate

from braindecode_censor import PAPER, CensoredEEGClassifier

OPTIONS = {**PAPER, "max_epochs": 20, "batch_size": 32, "lr": 3e-3, "valid_subject": 4}


def _train(data, **options):
    x, y, subjects = data
    idx = np.arange(len(y)) % 64
    train = (subjects != 5) & (idx < 40)
    probe, test = (subjects != 5) & (idx >= 40), subjects == 5
    clf = CensoredEEGClassifier(**{**OPTIONS, **options}).fit(x[train], y[train], subjects[train])
    report = clf.subject_leakage(x[probe], y[probe], subjects[probe], n_boot=10, probes=("logistic",))
    return report, clf.score(x[test], y[test])


@pytest.fixture(scope="module")
def study():
    return simulate(n_subjects=6, n_trials=64, effect=2.0)


@pytest.fixture(scope="module")
def plain(study):
    return _train(study, penalty=None)


@pytest.mark.parametrize(
    ("method", "weight", "mode"),
    [("adv", 1.0, "marginal"), ("pairmmd", 10.0, "conditional")],
)
def test_censoring_lowers_leakage(study, plain, method, weight, mode):
    report, score = _train(study, penalty=method, weight=weight, censoring=mode)
    view = "marginal" if mode == "marginal" else "within class"
    before = plain[0].loc[plain[0]["view"] == view, "excess"].mean()
    after = report.loc[report["view"] == view, "excess"].mean()
    assert before > 0.25, "nothing to remove"
    assert after < 0.75 * before
    assert score > plain[1] - 0.1
    assert plain[1] > 0.8
