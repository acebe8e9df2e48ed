"""Candidates: all default ones can be made and trained, and lists of users are understood or refused."""

import json

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from subjects import mixed_subjects

from braindecode_censor.classical.estimator import TangentSpaceClassifier
from braindecode_censor.search.family import (
    BASELINE,
    censored_candidates,
    default_names,
    find_candidates,
)
from braindecode_censor.training.arguments import PAPER

SHAPES = [(4, 64, 128.0), (1, 128, None), (2, 20, 100.0)]


@pytest.mark.parametrize("name", default_names())
def test_default_candidates_train(name):
    X, y, subjects = mixed_subjects(3, 12, n_chans=3)
    candidate = find_candidates([name])[0][0]
    steps = None if candidate.kind == "classical" else 2
    clf = candidate.make(X.shape[1:], 128.0, steps=steps)
    P = clf.fit(X, y, subjects=subjects).adapt(X[:12]).predict_proba(X[:12])
    assert P.shape == (12, 2) and np.isfinite(P).all()


@pytest.mark.parametrize("n_chans, n_times, sfreq", SHAPES)
@pytest.mark.parametrize("name", ["subject", "euclidean-slow", "shallow-subject"])
def test_networks_take_trials_of_any_size(name, n_chans, n_times, sfreq):
    X, y, subjects = mixed_subjects(3, 8, n_chans=n_chans, n_times=n_times)
    if name.startswith("shallow") and n_chans == 1:
        pytest.skip("Braindecode's ShallowFBCSPNet needs two channels")
    clf = find_candidates([name])[0][0].make(X.shape[1:], sfreq, steps=1)
    assert np.isfinite(clf.fit(X, y, subjects=subjects).adapt(X[:8]).predict_proba(X)).all()


def test_find_candidates_default():
    candidates, censored = find_candidates()
    assert [candidate.name for candidate in candidates] == default_names() and censored
    assert BASELINE in default_names() and 18 <= len(candidates) <= 25
    assert {candidate.kind for candidate in candidates} == {"network", "classical"}
    assert not find_candidates(["subject"])[1]


def test_default_networks_are_not_censored():
    networks = [c for c in find_candidates()[0] if c.kind == "network"]
    assert all(c.make((4, 64)).penalty is None for c in networks)


def test_baseline_is_the_papers_protocol():
    clf = find_candidates(["paper"])[0][0].make((4, 64))
    for name in ("normalize", "schedule", "keep", "valid_subject", "augment", "lr"):
        assert getattr(clf, name) == PAPER[name]


def test_candidate_options_reach_the_network():
    spec = {
        "name": "mine",
        "network": "EEGNet",
        "F1": 3,
        "D": 1,
        "drop": 0.1,
        "kernel": 0.25,
        "normalize": "trial",
    }
    candidate = find_candidates([spec])[0][0]
    clf = candidate.make((4, 200), 100.0, seed=7, steps=5)
    params = clf.get_params()
    assert params["module__F1"] == 3 and params["module__D"] == 1 and params["module__drop_prob"] == 0.1
    assert params["module__kernel_length"] == 25 and params["max_steps"] == 5 and params["random_state"] == 7
    assert candidate.steps == 1500 and candidate.make((4, 200)).max_steps == 1500


def test_censored_candidates():
    clf = find_candidates(["euclidean+adv-marginal-0.005"])[0][0].make((4, 64))
    assert (clf.penalty, clf.censoring, clf.weight, clf.normalize) == ("adv", "marginal", 0.005, "euclidean")
    base = find_candidates(["subject-wide"])[0][0]
    variants = censored_candidates(base)
    assert len({candidate.name for candidate in variants}) == 15
    named = find_candidates([variants[4].name])[0][0]
    assert named.spec == variants[4].spec and named.make((4, 64)).penalty == "pairmmd"


def test_own_estimators():
    forest = make_pipeline(FunctionTransformer(lambda X: X.var(axis=2)), RandomForestClassifier(5))
    candidates, _ = find_candidates([forest, ("tangent", TangentSpaceClassifier())])
    assert [c.name for c in candidates] == ["Pipeline", "tangent"] and candidates[0].kind == "own"
    assert candidates[0].make((4, 64), seed=3).get_params()["randomforestclassifier__random_state"] == 3
    assert forest.get_params()["randomforestclassifier__random_state"] is None
    assert candidates[0].steps is None


@pytest.mark.parametrize(
    "candidates, message",
    [
        (["subjct"], r"candidates='subjct' is unknown; choose from .* Did you mean 'subject'\?"),
        ("subject", "must be a list"),
        ([], "is empty"),
        (["censored"], "is empty"),
        (["subject", "subject"], "has 'subject' twice"),
        ([{"network": "EEGNet"}], "a dictionary needs a name"),
        ([{"name": "a", "network": "EEGNet", "classical": "power"}], "either network or classical"),
        ([{"name": "a", "network": "EEGNet", "normalise": "subject"}], "has 'a': .*normalise"),
        ([{"name": "a", "network": "EEGNet", "max_steps": None, "max_epochs": 2}], "has 'a': max_steps=None"),
        (["riemann+mmd-marginal"], "only networks can be censored"),
        (["subject+mmd-total"], "mode='total' is unknown"),
        (["subject+gan-marginal"], "method='gan' is unknown"),
        (["subject+mmd-marginal-much"], "has 'subject.mmd-marginal-much': 'much' is no weight"),
        (["censored+mmd-marginal"], "candidates='censored' is unknown"),
        ([FunctionTransformer()], "an estimator needs fit, predict_proba"),
        ([DummyClassifier(), DummyClassifier()], "has 'DummyClassifier' twice"),
    ],
)
def test_find_candidates_refuses(candidates, message):
    with pytest.raises(ValueError, match=message):
        find_candidates(candidates)


def test_default_candidates_are_plain_data():
    for candidate in find_candidates()[0]:
        assert json.loads(json.dumps(candidate.spec)) == candidate.spec
