"""Classical decoders: closed forms, invariances, causality, and that they learn."""

import numpy as np
import pytest
from subjects import mixed_subjects
from sklearn.base import clone
from sklearn.covariance import oas
from sklearn.linear_model import LogisticRegression

from braindecode_censor.classical import geometry
from braindecode_censor.classical.estimator import TangentSpaceClassifier, _row_space
from braindecode_censor.classical.features import FEATURES, shrunk_covariances
from braindecode_censor.search.heldout import balanced_accuracy

BANDS = [[0.02, 0.1], [0.1, 0.3]]
ALL = [{"features": name} for name in FEATURES] + [{"bands": BANDS}, {"recentre": False}, {"pieces": 3}]
IDS = ["-".join(map(str, kind.values()))[:20] for kind in ALL]


@pytest.fixture(scope="module")
def data():
    return mixed_subjects()


def fitted(data, person=1, **options):
    """A decoder of everybody else, and that person's trials and classes."""
    X, y, subjects = data
    seen = subjects != person
    return TangentSpaceClassifier(**options).fit(X[seen], y[seen], subjects[seen]), X[~seen], y[~seen]


def test_covariances_are_scikit_learns():
    X = np.random.default_rng(0).normal(size=(6, 5, 12)) * np.arange(1, 6)[:, None]
    expected = [oas(x.T)[0] for x in X]
    np.testing.assert_allclose(shrunk_covariances(X), expected, rtol=1e-5)


@pytest.mark.parametrize("n_chans, n_times", [(1, 8), (3, 2), (8, 5)])
def test_silence_and_short_trials_give_finite_positive_matrices(n_chans, n_times):
    X = np.zeros((3, n_chans, n_times))
    X[1:] = np.random.default_rng(0).normal(size=(2, n_chans, n_times))
    X[2, 0] = 7.0
    assert (np.linalg.eigvalsh(shrunk_covariances(X)) > 0).all()


def test_the_mean_commutes_with_mixing():
    rng = np.random.default_rng(0)
    C = shrunk_covariances(rng.normal(size=(20, 4, 30)) * rng.uniform(0.5, 2, size=(20, 4, 1)))
    A = rng.normal(size=(4, 4))
    np.testing.assert_allclose(geometry.mean(A @ C @ A.T), A @ geometry.mean(C) @ A.T, rtol=1e-8)


def test_matrices_of_commuting_diagonals_are_vectors_of_logarithms():
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(8, 3))
    diagonal = np.einsum("ni,ij->nij", np.exp(logs), np.eye(3))
    centre = geometry.mean(diagonal)
    np.testing.assert_allclose(np.log(np.diag(centre)), logs.mean(axis=0), atol=1e-6)
    moved = geometry.between(centre, diagonal[0], 0.3)
    np.testing.assert_allclose(
        np.log(np.diag(moved)), geometry.between(np.log(np.diag(centre)), logs[0], 0.3), atol=1e-6
    )
    away = geometry.difference(diagonal, centre)
    np.testing.assert_allclose(
        (away**2).sum(axis=1), ((logs - logs.mean(axis=0)) ** 2).sum(axis=1), atol=1e-5
    )


def test_fewer_trials_than_features_change_nothing_but_the_time():
    rng = np.random.default_rng(0)
    V, y = rng.normal(size=(20, 50)), np.arange(20) % 2
    V -= V.mean(axis=0)
    basis = _row_space(V)
    direct = LogisticRegression(tol=1e-8).fit(V, y)
    short = LogisticRegression(tol=1e-8).fit(V @ basis, y)
    np.testing.assert_allclose(short.coef_ @ basis.T, direct.coef_, atol=1e-5)


def test_adapting_helps_people_who_mix_their_channels(data):
    plain, adapted, streamed, shuffled = [], [], [], []
    for person in np.unique(data[2]):
        clf, X, y = fitted(data, person)
        plain.append(balanced_accuracy(clf.predict_proba(X), y))
        adapted.append(balanced_accuracy(clf.adapt(X).predict_proba(X), y))
        streamed.append(balanced_accuracy(clf.stream().predict_proba(X), y))
        shuffled.append(balanced_accuracy(clf.adapt(X).predict_proba(X), np.roll(y, 1)))
    assert np.mean(adapted) > 0.85 and np.mean(adapted) > np.mean(plain) + 0.1
    assert np.mean(streamed) > np.mean(plain) + 0.05
    assert np.mean(shuffled) < 0.3


@pytest.mark.parametrize("options", ALL, ids=IDS)
def test_a_trial_is_decoded_alone_and_adapting_leaves_the_decoder_alone(data, options):
    clf, X, y = fitted(data, **options)
    P = clf.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_allclose(clf.predict_proba(X[3:4]), P[3:4], atol=1e-9)
    person = clf.adapt(X)
    np.testing.assert_allclose(person.predict_proba(X[3:4]), person.predict_proba(X)[3:4], atol=1e-9)
    np.testing.assert_array_equal(clf.predict_proba(X), P)
    assert np.allclose(person.predict_proba(X), P) == (not clf.recentre)
    assert set(clf.predict(X)) <= set(y)


def test_adapted_decoders_do_not_notice_a_mixing_of_channels(data):
    clf, X, y = fitted(data, prior=0.0)
    A = np.eye(4) + 0.3 * np.random.default_rng(1).normal(size=(4, 4))
    before = clf.adapt(X)
    after = clf.adapt(A @ X)
    seen, mixed = (
        person._differences(person._kind().blocks(Z.astype(float), {}), person._centre())
        for person, Z in ((before, X), (after, A @ X))
    )
    # Up to a rotation, and up to what shrinking the covariances leaves: lengths stay, directions turn.
    np.testing.assert_allclose(np.linalg.norm(mixed, axis=1), np.linalg.norm(seen, axis=1), rtol=0.15)
    gain = clf.adapt(3 * X)
    np.testing.assert_allclose(gain.predict_proba(3 * X), before.predict_proba(X), atol=1e-6)


def test_adapting_draws_towards_the_population_by_the_prior(data):
    clf, X, y = fitted(data, features="power", prior=5.0)
    own = clf._kind().blocks(X[:15].astype(float), {})[0].mean(axis=0)
    expected = (5 * clf.arrays_["population0"] + 15 * own) / 20
    np.testing.assert_allclose(clf.adapt(X[:15]).arrays_["person0"], expected)


@pytest.mark.parametrize("options", ALL, ids=IDS)
def test_a_stream_is_causal_and_remembers(data, options):
    clf, X, y = fitted(data, **options)
    P = clf.stream().predict_proba(X)
    later = X.copy()
    later[12:] = X[12:][::-1] * 5
    np.testing.assert_allclose(clf.stream().predict_proba(later)[:12], P[:12], atol=1e-9)
    stream = clf.stream()
    parts = [stream.predict_proba(part) for part in np.array_split(X, 3)]
    np.testing.assert_allclose(np.concatenate(parts), P, atol=1e-9)


def test_the_last_trial_of_a_stream_is_decoded_as_after_adapting(data):
    clf, X, y = fitted(data, features="power")
    np.testing.assert_allclose(
        clf.stream().predict_proba(X)[-1], clf.adapt(X).predict_proba(X)[-1], atol=1e-9
    )


@pytest.mark.parametrize("options", ALL, ids=IDS)
def test_saved_and_read_again_it_is_the_same(data, options, tmp_path):
    clf, X, y = fitted(data, **options)
    for decoder in (clf, clf.adapt(X)):
        decoder.save(tmp_path / "clf.safetensors")
        content = decoder.to_bytes()
        assert (tmp_path / "clf.safetensors").read_bytes() == content
        assert TangentSpaceClassifier.from_bytes(content).to_bytes() == content
        again = TangentSpaceClassifier.load(tmp_path / "clf.safetensors")
        np.testing.assert_array_equal(again.predict_proba(X), decoder.predict_proba(X))
        np.testing.assert_array_equal(again.stream().predict_proba(X), decoder.stream().predict_proba(X))
        np.testing.assert_array_equal(again.predict(X), decoder.predict(X))


@pytest.mark.parametrize("shape", [(1, 64), (2, 16), (8, 6)])
@pytest.mark.parametrize("options", ALL, ids=IDS)
def test_few_channels_and_short_trials(shape, options):
    rng = np.random.default_rng(0)
    X, y, subjects = rng.normal(size=(40, *shape)), np.arange(40) % 2, np.arange(40) // 10
    X[y == 1] *= 2
    clf = TangentSpaceClassifier(**options).fit(X, y, subjects)
    assert np.isfinite(clf.adapt(X[:3]).predict_proba(X[:5])).all()


def test_features_of_a_person_are_found_in_the_cache_only_for_the_same_trials(data):
    X, y, subjects = data
    first, _, _ = fitted(data)
    again, _, _ = fitted(data)
    np.testing.assert_array_equal(first.arrays_["coef"], again.arrays_["coef"])
    other = X.copy()
    other[subjects == 3] *= np.array([1, 2, 1, 1])[:, None]
    changed, _, _ = fitted((other, y, subjects))
    assert not np.array_equal(first.arrays_["population0"], changed.arrays_["population0"])


def test_scikit_learn_clones_it():
    clf = TangentSpaceClassifier("power", windows=3)
    assert clone(clf).get_params() == clf.get_params()


def test_hjorth_features_of_sine_waves():
    """Differences of a sine of angular frequency w are sines of 2 sin(w/2) times the size, however strong it is."""
    w, t = np.array([0.2, 0.5]), np.arange(4000)
    X = np.array([1.0, 3.0])[:, None] * np.sin(w[:, None] * t + 0.3)
    (features,) = FEATURES["hjorth"](windows=2).blocks(X[None], {})
    expected = 2 * np.log(2 * np.sin(w / 2))
    np.testing.assert_allclose(features[0, -4:], np.tile(expected, 2), atol=0.02)
    (louder,) = FEATURES["hjorth"](windows=2).blocks(7 * X[None], {})
    np.testing.assert_allclose(louder - features, [[2 * np.log(7)] * 4 + [0.0] * 4], atol=1e-9)


@pytest.mark.parametrize("recentre", [True, False])
def test_two_kinds_of_features_side_by_side_are_each_seen_from_their_own_centre(data, recentre):
    """Matrices from a Riemannian mean, vectors from a plain one, before and after the new person's is known."""
    both, X, _ = fitted(data, features="hjorth-covariance", windows=2, recentre=recentre)
    alone = [fitted(data, features=k, windows=2, recentre=recentre)[0] for k in ("hjorth", "covariance")]
    for known in (lambda clf: clf, lambda clf: clf.adapt(X[:7])):
        rows = [clf._differences(clf._blocks(X)[0], clf._centre()) for clf in map(known, [both, *alone])]
        np.testing.assert_allclose(rows[0], np.concatenate(rows[1:], axis=1), atol=1e-12)


@pytest.mark.parametrize("features", ["hjorth-covariance", "xdawn"])
def test_pieces_are_trials_whose_answers_are_averaged(data, features):
    """Cut by hand, trained on, and averaged: logarithms of probabilities, up to what all classes have in common."""
    X, y, subjects = data
    clf = TangentSpaceClassifier(features, windows=1, pieces=3, prior=0.0).fit(X, y, subjects)
    length = X.shape[-1] // 3
    cut = np.concatenate([np.stack([x[:, k * length : (k + 1) * length] for k in range(3)]) for x in X])
    by_hand = TangentSpaceClassifier(features, windows=1, prior=0.0).fit(cut, y.repeat(3), subjects.repeat(3))
    np.testing.assert_allclose(clf.arrays_["coef"], by_hand.arrays_["coef"], rtol=1e-5)
    mine = subjects == 1
    for one, other in ((clf, by_hand), (clf.adapt(X[mine]), by_hand.adapt(cut[mine.repeat(3)]))):
        logs = np.log(other.predict_proba(cut)).reshape(len(X), 3, -1).mean(axis=1)
        expected = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(one.predict_proba(X), expected, rtol=1e-5)


@pytest.mark.parametrize("n_chans, n_times, pieces", [(3, 40, 2), (12, 72, 3)])
def test_pieces_have_sixteen_samples_and_two_for_each_channel(n_chans, n_times, pieces):
    X, y, subjects = mixed_subjects(3, 8, n_chans=n_chans, n_times=n_times)
    many, few = (TangentSpaceClassifier(pieces=k).fit(X, y, subjects) for k in (9, pieces))
    np.testing.assert_array_equal(many.predict_proba(X), few.predict_proba(X))
    one = TangentSpaceClassifier(pieces=1).fit(X, y, subjects)
    assert np.abs(many.predict_proba(X) - one.predict_proba(X)).max() > 1e-3


def test_bad_input(data, tmp_path):
    X, y, subjects = data
    with pytest.raises(ValueError, match="features='tangent' is unknown; choose from"):
        TangentSpaceClassifier("tangent").fit(X, y, subjects)
    with pytest.raises(ValueError, match=r"bands has \(8, 12\): limits are fractions of the sampling rate"):
        TangentSpaceClassifier(bands=[[8, 12]]).fit(X, y, subjects)
    with pytest.raises(ValueError, match=r"y holds one class, \[0\]"):
        TangentSpaceClassifier().fit(X, np.zeros(len(X), int), subjects)
    clf = TangentSpaceClassifier().fit(X, y, subjects)
    with pytest.raises(
        ValueError, match=r"X has \(3, 64\) channels and samples per trial, fit had \(4, 64\)"
    ):
        clf.predict(X[:, :3])
    with pytest.warns(UserWarning, match="does not use y"):
        clf.adapt(X[:4], y[:4])
    (tmp_path / "x").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"x is not a saved braindecode-censor TangentSpaceClassifier, or it is damaged"):
        TangentSpaceClassifier.load(tmp_path / "x")
