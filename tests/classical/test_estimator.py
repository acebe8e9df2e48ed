"""Classical decoders: closed forms, invariances, causality, and learning."""

import threading

import numpy as np
import pytest
from sklearn.covariance import oas
from sklearn.linear_model import LogisticRegression
from subjects import mixed_subjects

from braindecode_censor.classical import estimator, geometry
from braindecode_censor.classical.estimator import TangentSpaceClassifier, _row_space
from braindecode_censor.classical.features import FEATURES, shrunk_covariances
from braindecode_censor.search.heldout import balanced_accuracy

BANDS = [[0.02, 0.1], [0.1, 0.3]]
ALL = [{"features": name} for name in FEATURES] + [{"bands": BANDS}, {"recentre": False}, {"segments": 3}]
IDS = ["-".join(map(str, options.values()))[:20] for options in ALL]


@pytest.fixture(scope="module")
def data():
    return mixed_subjects()


def fitted(data, subject=1, **options):
    """Return a decoder fitted without one subject, and that subject's trials and labels."""
    X, y, subjects = data
    train = subjects != subject
    return TangentSpaceClassifier(**options).fit(X[train], y[train], subjects[train]), X[~train], y[~train]


def test_shrunk_covariances_equal_scikit_learn():
    X = np.random.default_rng(0).normal(size=(6, 5, 12)) * np.arange(1, 6)[:, None]
    expected = [oas(x.T)[0] for x in X]
    np.testing.assert_allclose(shrunk_covariances(X), expected, rtol=1e-5)


@pytest.mark.parametrize("n_chans, n_times", [(1, 8), (3, 2), (8, 5)])
def test_shrunk_covariances_of_silence_and_short_trials_are_positive(n_chans, n_times):
    X = np.zeros((3, n_chans, n_times))
    X[1:] = np.random.default_rng(0).normal(size=(2, n_chans, n_times))
    X[2, 0] = 7.0
    assert (np.linalg.eigvalsh(shrunk_covariances(X)) > 0).all()


def test_mean_commutes_with_mixing():
    rng = np.random.default_rng(0)
    C = shrunk_covariances(rng.normal(size=(20, 4, 30)) * rng.uniform(0.5, 2, size=(20, 4, 1)))
    A = rng.normal(size=(4, 4))
    np.testing.assert_allclose(geometry.mean(A @ C @ A.T), A @ geometry.mean(C) @ A.T, rtol=1e-8)


def test_geometry_of_diagonal_matrices_is_that_of_their_logarithms():
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


def test_row_space_gives_the_same_regression():
    rng = np.random.default_rng(0)
    V, y = rng.normal(size=(20, 50)), np.arange(20) % 2
    V -= V.mean(axis=0)
    basis = _row_space(V)
    direct = LogisticRegression(tol=1e-8).fit(V, y)
    short = LogisticRegression(tol=1e-8).fit(V @ basis, y)
    np.testing.assert_allclose(short.coef_ @ basis.T, direct.coef_, atol=1e-5)


def test_adapt_and_stream_improve_accuracy_of_mixed_subjects(data):
    plain, adapted, streamed, shuffled = [], [], [], []
    for subject in np.unique(data[2]):
        clf, X, y = fitted(data, subject)
        plain.append(balanced_accuracy(clf.predict_proba(X), y))
        adapted.append(balanced_accuracy(clf.adapt(X).predict_proba(X), y))
        streamed.append(balanced_accuracy(clf.stream().predict_proba(X), y))
        shuffled.append(balanced_accuracy(clf.adapt(X).predict_proba(X), np.roll(y, 1)))
    assert np.mean(adapted) > 0.85 and np.mean(adapted) > np.mean(plain) + 0.1
    assert np.mean(streamed) > np.mean(plain) + 0.05
    assert np.mean(shuffled) < 0.3


@pytest.mark.parametrize("options", ALL, ids=IDS)
def test_trials_are_decoded_independently_and_adapt_copies(data, options):
    clf, X, y = fitted(data, **options)
    P = clf.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_allclose(clf.predict_proba(X[3:4]), P[3:4], atol=1e-9)
    adapted = clf.adapt(X)
    np.testing.assert_allclose(adapted.predict_proba(X[3:4]), adapted.predict_proba(X)[3:4], atol=1e-9)
    np.testing.assert_array_equal(clf.predict_proba(X), P)
    assert np.allclose(adapted.predict_proba(X), P) == (not clf.recentre)
    assert set(clf.predict(X)) <= set(y)


def test_adapted_decoder_is_invariant_to_mixing_of_channels(data):
    clf, X, _ = fitted(data, prior=0.0)
    A = np.eye(4) + 0.3 * np.random.default_rng(1).normal(size=(4, 4))
    before = clf.adapt(X)
    after = clf.adapt(A @ X)
    plain, mixed = (
        adapted._differences(adapted._blocks(Z)[0], adapted._centre())
        for adapted, Z in ((before, X), (after, A @ X))
    )
    # Up to a rotation, which keeps lengths, and up to the shrinkage of the covariances.
    np.testing.assert_allclose(np.linalg.norm(mixed, axis=1), np.linalg.norm(plain, axis=1), rtol=0.15)
    gain = clf.adapt(3 * X)
    np.testing.assert_allclose(gain.predict_proba(3 * X), before.predict_proba(X), atol=1e-6)


def test_prior_counts_as_trials_of_the_population(data):
    clf, X, _ = fitted(data, features="power", prior=5.0)
    mean = clf._blocks(X[:15])[0][0].mean(axis=0)
    adapted = clf.adapt(X[:15])
    population = clf.arrays_["population0"] + 2 * adapted._log_gain()  # at the subject's amplitude
    np.testing.assert_allclose(adapted._centre()[0], (5 * population + 15 * mean) / 20)


@pytest.mark.parametrize("options", ALL, ids=IDS)
def test_gain_does_not_matter(data, options):
    clf, X, _ = fitted(data, **options)
    if not clf.recentre:
        return
    plain, stream = clf.adapt(X).predict_proba(X), clf.stream().predict_proba(np.tile(X, (2, 1, 1)))
    for gain in (0.01, 0.1, 3, 100):
        np.testing.assert_allclose(clf.adapt(gain * X).predict_proba(gain * X), plain, atol=0.02)
        streamed = clf.stream().predict_proba(gain * np.tile(X, (2, 1, 1)))
        np.testing.assert_allclose(streamed[20:], stream[20:], atol=0.02)


@pytest.mark.parametrize("options", ALL, ids=IDS)
def test_training_subject_in_another_unit_changes_nothing(data, options):
    clf, X, _ = fitted(data, **options)
    if not clf.recentre:
        return
    signals, y, subjects = data
    loud = np.where((subjects == np.unique(subjects)[0])[:, None, None], 1e6 * signals, signals)
    other, _, _ = fitted((loud, y, subjects), **options)
    np.testing.assert_allclose(other.adapt(X).predict_proba(X), clf.adapt(X).predict_proba(X), atol=0.02)


@pytest.mark.parametrize("options", ALL, ids=IDS)
def test_stream_is_causal_and_keeps_its_state(data, options):
    clf, X, y = fitted(data, **options)
    P = clf.stream().predict_proba(X)
    later = X.copy()
    later[12:] = X[12:][::-1] * 5
    np.testing.assert_allclose(clf.stream().predict_proba(later)[:12], P[:12], atol=1e-9)
    stream = clf.stream()
    parts = [stream.predict_proba(part) for part in np.array_split(X, 3)]
    np.testing.assert_allclose(np.concatenate(parts), P, atol=1e-9)


def test_last_trial_of_a_stream_is_decoded_as_after_adapt(data):
    clf, X, y = fitted(data, features="power")
    np.testing.assert_allclose(
        clf.stream().predict_proba(X)[-1], clf.adapt(X).predict_proba(X)[-1], atol=1e-9
    )


@pytest.mark.parametrize("options", ALL, ids=IDS)
def test_saved_decoder_is_the_same(data, options, tmp_path):
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


def test_cached_features_are_used_for_the_same_trials_only(data):
    X, y, subjects = data
    first, _, _ = fitted(data)
    again, _, _ = fitted(data)
    np.testing.assert_array_equal(first.arrays_["coef"], again.arrays_["coef"])
    other = X.copy()
    other[subjects == 3] *= np.array([1, 2, 1, 1])[:, None]
    changed, _, _ = fitted((other, y, subjects))
    assert not np.array_equal(first.arrays_["population0"], changed.arrays_["population0"])


def test_hjorth_features_of_sine_waves():
    """Differences of a sine of angular frequency w have 2 sin(w/2) times its amplitude."""
    w, t = np.array([0.2, 0.5]), np.arange(4000)
    X = np.array([1.0, 3.0])[:, None] * np.sin(w[:, None] * t + 0.3)
    (features,) = FEATURES["hjorth"](windows=2).blocks(X[None], {})
    expected = 2 * np.log(2 * np.sin(w / 2))
    np.testing.assert_allclose(features[0, -4:], np.tile(expected, 2), atol=0.02)
    (louder,) = FEATURES["hjorth"](windows=2).blocks(7 * X[None], {})
    np.testing.assert_allclose(louder - features, [[2 * np.log(7)] * 4 + [0.0] * 4], atol=1e-9)
    (rescaled,) = FEATURES["hjorth"](windows=2).rescale([features[0]], np.log(7), X.shape)
    np.testing.assert_allclose(rescaled, louder[0])


@pytest.mark.parametrize("recentre", [True, False])
def test_combined_features_have_separate_centres(data, recentre):
    both, X, _ = fitted(data, features="hjorth-covariance", windows=2, recentre=recentre)
    single = [
        fitted(data, features=name, windows=2, recentre=recentre)[0] for name in ("hjorth", "covariance")
    ]
    for change in (lambda clf: clf, lambda clf: clf.adapt(X[:7])):
        rows = [clf._differences(clf._blocks(X)[0], clf._centre()) for clf in map(change, [both, *single])]
        np.testing.assert_allclose(rows[0], np.concatenate(rows[1:], axis=1), atol=1e-12)


@pytest.mark.parametrize("features", ["hjorth-covariance", "xdawn"])
def test_segments_are_trials_whose_scores_are_averaged(data, features):
    """Scores are logarithms of probabilities, up to a constant of all classes."""
    X, y, subjects = data
    clf = TangentSpaceClassifier(features, windows=1, segments=3, prior=0.0).fit(X, y, subjects)
    length = X.shape[-1] // 3
    cut = np.concatenate([np.stack([x[:, k * length : (k + 1) * length] for k in range(3)]) for x in X])
    by_hand = TangentSpaceClassifier(features, windows=1, prior=0.0).fit(cut, y.repeat(3), subjects.repeat(3))
    # The amplitude of a trial is not that of its segments, which moves the population's centre a little.
    if features == "hjorth-covariance":
        np.testing.assert_allclose(clf.arrays_["coef"], by_hand.arrays_["coef"], rtol=1e-5)
    idx = subjects == 1
    for one, other in ((clf, by_hand), (clf.adapt(X[idx]), by_hand.adapt(cut[idx.repeat(3)]))):
        logs = np.log(other.predict_proba(cut)).reshape(len(X), 3, -1).mean(axis=1)
        expected = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(one.predict_proba(X), expected, atol=1e-2)


@pytest.mark.parametrize("n_chans, n_times, n_segments", [(3, 40, 2), (12, 72, 3)])
def test_segments_have_sixteen_samples_and_two_per_channel(n_chans, n_times, n_segments):
    X, y, subjects = mixed_subjects(3, 8, n_chans=n_chans, n_times=n_times)
    many, few = (TangentSpaceClassifier(segments=k).fit(X, y, subjects) for k in (9, n_segments))
    np.testing.assert_array_equal(many.predict_proba(X), few.predict_proba(X))
    one = TangentSpaceClassifier(segments=1).fit(X, y, subjects)
    assert np.abs(many.predict_proba(X) - one.predict_proba(X)).max() > 1e-3


def test_errors(data, tmp_path):
    X, y, subjects = data
    with pytest.raises(ValueError, match="features='tangent' is unknown; choose from"):
        TangentSpaceClassifier("tangent").fit(X, y, subjects)
    with pytest.raises(
        ValueError, match=r"bands=\[\[8, 12\]\] must be pairs of fractions of the sampling rate"
    ):
        TangentSpaceClassifier(bands=[[8, 12]]).fit(X, y, subjects)
    with pytest.raises(ValueError, match=r"y holds one class, \[0\]"):
        TangentSpaceClassifier().fit(X, np.zeros(len(X), int), subjects)
    clf = TangentSpaceClassifier().fit(X, y, subjects)
    with pytest.raises(
        ValueError, match=r"X has \(3, 64\) channels and samples per trial, fit had \(4, 64\)"
    ):
        clf.predict(X[:, :3])
    with pytest.warns(UserWarning, match="ignores y"):
        clf.adapt(X[:4], y[:4])
    (tmp_path / "x").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"x is not a saved .* TangentSpaceClassifier, or it is damaged"):
        TangentSpaceClassifier.load(tmp_path / "x")


def test_threads_use_one_cache_of_features(monkeypatch):
    monkeypatch.setattr(estimator, "_CACHE_BYTES", 3 * 80)  # room for three
    cache, errors = estimator._Cache(), []

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
    assert not errors and len(cache.values) == 3
