"""The family: every candidate can be made and trained, and what a user writes is understood or refused."""

import numpy as np
import pytest
from subjects import mixed_subjects
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from braindecode_censor.classical.estimator import TangentSpaceClassifier
from braindecode_censor.search.family import (
    BASELINE,
    Candidate,
    censored_candidates,
    family_names,
    find_candidates,
)
from braindecode_censor.training.arguments import PAPER

SHAPES = [(4, 64, 128.0), (1, 128, None), (2, 20, 100.0)]


@pytest.mark.parametrize("name", family_names())
def test_every_candidate_trains(name):
    X, y, subjects = mixed_subjects(3, 12, n_chans=3)
    candidate = find_candidates([name])[0][0]
    steps = None if candidate.kind == "classical" else 2
    clf = candidate.make(X.shape[1:], 128.0, steps=steps)
    P = clf.fit(X, y, subjects=subjects).adapt(X[:12]).predict_proba(X[:12])
    assert P.shape == (12, 2) and np.isfinite(P).all()


@pytest.mark.parametrize("n_chans, n_times, sfreq", SHAPES)
@pytest.mark.parametrize("name", ["subject", "euclidean-slow", "shallow-subject"])
def test_networks_fit_trials_of_any_size(name, n_chans, n_times, sfreq):
    X, y, subjects = mixed_subjects(3, 8, n_chans=n_chans, n_times=n_times)
    if name.startswith("shallow") and n_chans == 1:
        pytest.skip("Braindecode's ShallowFBCSPNet needs two channels")
    clf = find_candidates([name])[0][0].make(X.shape[1:], sfreq, steps=1)
    assert np.isfinite(clf.fit(X, y, subjects=subjects).adapt(X[:8]).predict_proba(X)).all()


def test_the_default_is_the_whole_family_and_censoring_on_top():
    found, censored = find_candidates()
    assert [candidate.name for candidate in found] == family_names() and censored
    assert BASELINE in family_names() and 18 <= len(found) <= 25
    assert {candidate.kind for candidate in found} == {"network", "classical"}
    assert not find_candidates(["subject"])[1]


def test_nothing_is_censored_unless_asked_for():
    networks = [c for c in find_candidates()[0] if c.kind == "network"]
    assert all(c.make((4, 64)).penalty is None for c in networks)


def test_the_baseline_is_the_papers_protocol():
    clf = find_candidates(["paper"])[0][0].make((4, 64))
    for name in ("normalize", "schedule", "keep", "valid_subject", "augment", "lr"):
        assert getattr(clf, name) == PAPER[name]


def test_options_reach_the_network():
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


def test_censoring_on_top():
    clf = find_candidates(["euclidean+adv-marginal-0.005"])[0][0].make((4, 64))
    assert (clf.penalty, clf.censoring, clf.weight, clf.normalize) == ("adv", "marginal", 0.005, "euclidean")
    base = find_candidates(["subject-wide"])[0][0]
    found = censored_candidates(base)
    assert len({candidate.name for candidate in found}) == 15
    named = find_candidates([found[4].name])[0][0]
    assert named.spec == found[4].spec and named.make((4, 64)).penalty == "pairmmd"


def test_own_estimators():
    forest = make_pipeline(FunctionTransformer(lambda X: X.var(axis=2)), RandomForestClassifier(5))
    found, _ = find_candidates([forest, ("tangent", TangentSpaceClassifier())])
    assert [c.name for c in found] == ["Pipeline", "tangent"] and found[0].kind == "own"
    assert found[0].make((4, 64), seed=3).get_params()["randomforestclassifier__random_state"] == 3
    assert forest.get_params()["randomforestclassifier__random_state"] is None
    assert found[0].steps is None


@pytest.mark.parametrize(
    "candidates, message",
    [
        (["persn"], r"candidates='persn' is unknown; choose from .* Did you mean 'subject'\?"),
        ("subject", "must be a list"),
        ([], "is empty"),
        (["censored"], "is empty"),
        (["subject", "subject"], "has 'subject' twice"),
        ([{"network": "EEGNet"}], "a dictionary needs a name"),
        ([{"name": "a", "network": "EEGNet", "classical": "power"}], "either network or classical"),
        ([{"name": "a", "network": "EEGNet", "normalise": "subject"}], "has 'a': .*normalise"),
        (["riemann+mmd-marginal"], "only networks can be censored"),
        (["subject+mmd-total"], "mode='total' is unknown"),
        (["subject+gan-marginal"], "method='gan' is unknown"),
        (["subject+mmd-marginal-much"], "has 'person.mmd-marginal-much': 'much' is no weight"),
        (["censored+mmd-marginal"], "candidates='censored' is unknown"),
        ([FunctionTransformer()], "an estimator needs fit, predict_proba"),
        ([DummyClassifier(), DummyClassifier()], "has 'DummyClassifier' twice"),
    ],
)
def test_what_is_refused(candidates, message):
    with pytest.raises(ValueError, match=message):
        find_candidates(candidates)


def test_names_may_come_from_a_generator():
    found, censored = find_candidates(name for name in ("riemann", "censored"))
    assert [candidate.name for candidate in found] == ["riemann"] and censored


def test_a_candidate_is_plain_data():
    import json

    for candidate in find_candidates()[0]:
        assert json.loads(json.dumps(candidate.spec)) == candidate.spec
        assert Candidate(candidate.name, candidate.spec).kind == candidate.kind
