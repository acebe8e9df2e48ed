"""One spoilt subject is named in a warning and does not spoil the decoder of the others."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score
from subjects import mixed_subjects

import braindecode_censor as bc
from braindecode_censor.trials.quality import TrialsWarning

X, Y, SUBJECTS = mixed_subjects(10, 24, effect=1.3)
NEW, SPOILT = SUBJECTS > 7, SUBJECTS == 3
NETWORK = {
    "name": "net",
    "network": "EEGNet",
    "F1": 4,
    "normalize": "subject",
    "max_steps": 60,
    "augment": None,
}


def fit(signals, y, candidates):
    clf = bc.AutoTransferClassifier(
        candidates=candidates, max_trainings=14 * len(candidates), verbose=0, device="cpu"
    )
    return clf.fit(signals[~NEW], y[~NEW], subjects=SUBJECTS[~NEW])


def accuracy(clf):
    """Return the accuracy of the new subjects, who are not spoilt."""
    scores = []
    for subject in np.unique(SUBJECTS[NEW]):
        rows = subject == SUBJECTS
        scores.append(balanced_accuracy_score(Y[rows], clf.adapt(X[rows]).predict(X[rows])))
    return np.mean(scores)


def loud(x, y):
    return 1e6 * x, y


def quiet(x, y):
    return 1e-6 * x, y


def flat(x, y):
    return np.where(np.arange(4)[:, None] == 2, 0, x), y


def constant(x, y):
    return np.where(np.arange(len(x))[:, None, None] < 3, 1, x), y


def nearly_one_class(x, y):
    order = np.argsort(y, kind="stable")  # three trials of class 0, and those of class 1 nearly twice
    rows = np.concatenate([order[:3], order[12:], order[12:21]])
    return x[rows], y[rows]


CASES = {
    loud: "subject 3: a typical amplitude of",
    quiet: "subject 3: a typical amplitude of",
    flat: "subject 3: 1 flat channels, constant in all trials: 2",
    constant: "subject 3: 3 constant trials of 24",
    nearly_one_class: "subject 3: 21 of 24 trials are of class 1",
}


@pytest.fixture(scope="module")
def clean():
    candidates = ["riemann", "power", NETWORK]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {k: accuracy(fit(X, Y, candidates[:k])) for k in (2, 3)}


@pytest.mark.parametrize("spoil, n_candidates", [(loud, 3), *((s, 2) for s in CASES)])
def test_others_are_decoded_as_without_it(clean, spoil, n_candidates):
    signals, y = X.copy(), Y.copy()
    signals[SPOILT], y[SPOILT] = spoil(X[SPOILT], Y[SPOILT])
    with pytest.warns(TrialsWarning, match=CASES[spoil]) as caught:
        clf = fit(signals, y, ["riemann", "power", NETWORK][:n_candidates])
    assert sum(isinstance(w.message, TrialsWarning) for w in caught) == 1
    assert accuracy(clf) > clean[n_candidates] - 0.01
    assert 0.6 < clean[n_candidates] < 1, "neither chance nor a task that nothing could spoil"
