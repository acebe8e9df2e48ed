"""Held-out probabilities: what may be seen in a choice for a person, and what must not be."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor.search.folds import make_pairs, partners_of
from braindecode_censor.search.heldout import HeldOut, balanced_accuracy
from braindecode_censor.search.weights import choose_weights

S, N = 6, 20
CANDIDATES = {"weak": 1e-3, "middle": 0.1, "free": 10.0}


def people(seed=0):
    """Features and classes of a few people, who differ by a shift."""
    rng = np.random.default_rng(seed)
    y = np.tile([0, 1], (S, N // 2))
    shift = rng.normal(size=(S, 1, 3))
    return rng.normal(size=(S, N, 3)) + y[..., None] * [0.8, 0.3, 0.0] + 0.5 * shift, y


def search(X, y, pairs):
    """Train all candidates on all pairs."""
    held = HeldOut(list(y), pairs)
    for name, C in CANDIDATES.items():
        for position, (a, b) in enumerate(pairs):
            seen = np.setdiff1d(np.arange(len(X)), (a, b))
            model = LogisticRegression(C=C).fit(np.concatenate(X[seen]), np.concatenate(y[seen]))
            held.add(name, position, model.predict_proba(X[a]), model.predict_proba(X[b]))
    return held


@pytest.fixture(scope="module")
def held():
    return search(*people(), make_pairs(S, 2))


def test_balanced_accuracy_is_scikit_learns():
    rng = np.random.default_rng(0)
    P, y = rng.dirichlet([1, 1, 1], size=50), rng.choice(3, size=50, p=[0.7, 0.2, 0.1])
    assert balanced_accuracy(P, y) == pytest.approx(balanced_accuracy_score(y, P.argmax(axis=1)))


@pytest.mark.parametrize("what", ["labels", "signals"])
def test_the_choice_for_a_person_sees_nothing_of_this_person(held, what):
    X, y = people()
    person, pairs = 2, held.pairs
    if what == "labels":
        y[person] = 1 - y[person]
    else:
        X[person] = np.random.default_rng(9).normal(size=X[person].shape) * 7
    other = search(X, y, pairs)
    names = list(CANDIDATES)
    before, after = held.for_choice(person, names), other.for_choice(person, names)
    for a, b in zip(before, after):
        np.testing.assert_array_equal(a, b)
    assert person not in before[2]
    # Where the person may be seen, all of this does change: the test can fail.
    assert not np.array_equal(held.of_population(names)[0], other.of_population(names)[0])
    assert any(
        not np.array_equal(held.for_choice(v, names)[0], other.for_choice(v, names)[0])
        for v in range(S)
        if v != person
    )
    probabilities, truth = held.for_test(person, names)
    changed, new_truth = other.for_test(person, names)
    assert np.array_equal(probabilities, changed) == (what == "labels")
    assert np.array_equal(truth, new_truth) == (what == "signals")


def test_nested_score_by_hand(held):
    names, person = list(CANDIDATES), 4
    found = partners_of(person, held.pairs)
    chosen = [np.concatenate([held.found[n][e][v] for v, e in sorted(found.items())]) for n in names]
    y = np.concatenate([held.labels[v] for v in sorted(found)])
    who = np.repeat(sorted(found), N)
    weights = choose_weights(np.stack(chosen), y, who)
    tested = [np.mean([held.found[n][e][person] for e in found.values()], axis=0) for n in names]
    mixed = sum(w * P for w, P in zip(weights, tested))
    expected = balanced_accuracy_score(held.labels[person], mixed.argmax(axis=1))
    assert held.nested_scores(names)[person] == pytest.approx(expected)


def test_the_population_averages_over_all_models_without_the_person(held):
    P, y, who = held.of_population(["free"])
    mine = [found[3] for position, found in held.found["free"].items() if 3 in held.pairs[position]]
    assert len(mine) == 2
    np.testing.assert_allclose(P[0, who == 3], np.mean(mine, axis=0))
    np.testing.assert_array_equal(y[who == 3], held.labels[3])


def test_only_pairs_that_all_candidates_have_are_compared(held):
    part = HeldOut(held.labels, held.pairs)
    for name in CANDIDATES:
        for position in range(len(held.pairs) if name == "weak" else 2):
            part.add(name, position, *held.found[name][position].values())
    assert part.shared_pairs(list(CANDIDATES)) == [0, 1]
    scores = part.nested_scores(list(CANDIDATES))
    tested = set(np.ravel(held.pairs[:2]))
    assert {p for p in range(S) if np.isfinite(scores[p])} == tested
    assert np.isfinite(part.scores("weak")).all()
    part.forget("weak")
    assert "weak" not in part.found


def test_calibration_trials_do_not_count(held):
    part = HeldOut(held.labels, held.pairs)
    for name in CANDIDATES:
        for position, found in held.found[name].items():
            hidden = [np.where(np.arange(N)[:, None] < 4, np.nan, P) for P in found.values()]
            part.add(name, position, *hidden)
    P, y, who = part.of_population(list(CANDIDATES))
    assert P.shape[1] == S * (N - 4) and np.isfinite(P).all()
    assert np.isfinite(part.nested_scores(list(CANDIDATES))).all()


def test_probabilities_of_another_person_are_refused(held):
    with pytest.raises(ValueError, match="3 probabilities for 20 trials"):
        held.add("new", 0, np.ones((3, 2)), np.ones((20, 2)))


def test_scores_of_all_people_at_once_are_those_of_each():
    rng = np.random.default_rng(0)
    labels = [rng.integers(3, size=n) for n in (9, 7, 8, 12, 5)]
    pairs = make_pairs(5)
    heldout = HeldOut(labels, pairs)
    for position, (a, b) in enumerate(pairs[:6]):
        heldout.add(
            "net", position, rng.dirichlet([1] * 3, len(labels[a])), rng.dirichlet([1] * 3, len(labels[b]))
        )
    scores = heldout.scores("net")
    for person in range(5):
        probabilities, y = heldout.for_test(person, ["net"])
        assert scores[person] == pytest.approx(balanced_accuracy(probabilities[0], y), abs=1e-15)
    assert np.isnan(HeldOut(labels, pairs).scores("net")).all()
