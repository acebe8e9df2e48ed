"""Held-out probabilities: what may be used in a choice for a subject, and what must not."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor.search.folds import make_folds, partners_of
from braindecode_censor.search.heldout import HeldOut, balanced_accuracy
from braindecode_censor.search.weights import choose_weights

S, N = 6, 20
CANDIDATES = {"weak": 1e-3, "middle": 0.1, "free": 10.0}
NAMES = list(CANDIDATES)


@pytest.fixture(scope="module")
def heldout():
    """All candidates, trained on all folds of subjects that differ by a shift."""
    rng, y = np.random.default_rng(0), np.tile([0, 1], (S, N // 2))
    shift = rng.normal(size=(S, 1, 3))
    X = rng.normal(size=(S, N, 3)) + y[..., None] * [0.8, 0.3, 0.0] + 0.5 * shift
    heldout = HeldOut(list(y), make_folds(S, 2))
    for name, C in CANDIDATES.items():
        for fold, pair in enumerate(heldout.folds):
            train_idx = np.setdiff1d(np.arange(len(X)), pair)
            model = LogisticRegression(C=C).fit(np.concatenate(X[train_idx]), np.concatenate(y[train_idx]))
            heldout.add(name, fold, {subject: model.predict_proba(X[subject]) for subject in pair})
    return heldout


def test_balanced_accuracy_is_scikit_learns():
    rng = np.random.default_rng(0)
    P, y = rng.dirichlet([1, 1, 1], size=50), rng.choice(3, size=50, p=[0.7, 0.2, 0.1])
    assert balanced_accuracy(P, y) == pytest.approx(balanced_accuracy_score(y, P.argmax(axis=1)))


def test_nested_score_by_hand(heldout):
    subject = 4
    partners = partners_of(subject, heldout.folds)
    P = [np.concatenate([heldout.probabilities[n][k][v] for v, k in sorted(partners.items())]) for n in NAMES]
    y = np.concatenate([heldout.labels[v] for v in sorted(partners)])
    weights = choose_weights(np.stack(P), y, np.repeat(sorted(partners), N))
    tests = [
        np.mean([heldout.probabilities[n][k][subject] for k in partners.values()], axis=0) for n in NAMES
    ]
    mixed = sum(w * test for w, test in zip(weights, tests))
    expected = balanced_accuracy_score(heldout.labels[subject], mixed.argmax(axis=1))
    assert heldout.nested_scores(NAMES)[subject] == pytest.approx(expected)


def test_final_weights_use_averages_over_all_models_without_the_subject(heldout):
    P, y, subjects = heldout.for_final_weights(["free"])
    models = [by_subject[3] for by_subject in heldout.probabilities["free"].values() if 3 in by_subject]
    assert len(models) == 2
    np.testing.assert_allclose(P[0, subjects == 3], np.mean(models, axis=0))
    np.testing.assert_array_equal(y[subjects == 3], heldout.labels[3])


def test_nested_scores_compare_shared_folds_only(heldout):
    subset = HeldOut(heldout.labels, heldout.folds)
    for name in CANDIDATES:
        for fold in range(len(heldout.folds) if name == "weak" else 2):
            subset.add(name, fold, heldout.probabilities[name][fold])
    assert subset.shared_folds(NAMES) == [0, 1]
    scores = subset.nested_scores(NAMES)
    assert {p for p in range(S) if np.isfinite(scores[p])} == set(np.ravel(heldout.folds[:2]))
    assert np.isfinite(subset.scores("weak")).all()
    subset.remove("weak")
    assert "weak" not in subset.probabilities and subset.loss("weak") == np.inf
    assert np.isfinite(subset.nested_scores(["middle"])).sum() == 4  # not those of before


def test_calibration_trials_do_not_count(heldout):
    subset = HeldOut(heldout.labels, heldout.folds)
    for name in CANDIDATES:
        for fold, by_subject in heldout.probabilities[name].items():
            hidden = {s: np.where(np.arange(N)[:, None] < 4, np.nan, P) for s, P in by_subject.items()}
            subset.add(name, fold, hidden)
    P, y, _ = subset.for_final_weights(NAMES)
    assert P.shape[1] == len(y) == S * (N - 4) and np.isfinite(P).all()
    assert np.isfinite(subset.nested_scores(NAMES)).all()


def test_add_refuses_probabilities_of_other_trials(heldout):
    a, b = heldout.folds[0]
    with pytest.raises(ValueError, match="3 probabilities for the 20 trials"):
        heldout.add("new", 0, {a: np.ones((20, 2)), b: np.ones((3, 2))})
