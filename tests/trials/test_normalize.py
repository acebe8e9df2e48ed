"""Does every normalisation do what its formula says, and never look at the trials beside the one it maps?"""

import json
import pickle
import warnings

import mne
import numpy as np
import pandas as pd
import pytest
import torch
from moabb.datasets.preprocessing import EuclideanAlignment
from sklearn.base import clone

from braindecode_censor.trials.normalize import (
    NORMALIZATIONS,
    SubjectNormalizer,
    normalize_people,
    people_statistics,
)

PERSONAL = ("subject", "euclidean")
N_CHANS = 4


def people(n_people=3, n_trials=12, n_times=60, seed=0):
    """Return trials of people who differ by offset, by gain and by how their channels are mixed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_people, n_trials, N_CHANS, n_times))
    X *= rng.lognormal(sigma=0.5, size=(n_people, n_trials, 1, 1))
    mixing = rng.normal(size=(n_people, 1, N_CHANS, N_CHANS)) + 2 * np.eye(N_CHANS)
    X = mixing @ X + 5 * rng.normal(size=(n_people, 1, N_CHANS, 1))
    return X.reshape(-1, N_CHANS, n_times), np.repeat(np.arange(n_people), n_trials)


@pytest.fixture(scope="module")
def known():
    return people()


@pytest.fixture(scope="module")
def stranger():
    return people(1, 20, seed=9)[0]


@pytest.fixture
def fitted(known):
    return lambda how, **options: SubjectNormalizer(how, **options).fit(known[0], subjects=known[1])


def quietly(normalizer, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return normalizer.transform(X)


# ---- what each normalisation is


def test_trial_channel_gives_every_channel_of_every_trial_mean_0_and_variance_1(fitted, stranger):
    Z = fitted("trial_channel").transform(stranger)
    np.testing.assert_allclose(Z.mean(axis=-1), 0, atol=1e-12)
    np.testing.assert_allclose(Z.std(axis=-1), 1)


def test_trial_divides_all_channels_by_one_number(fitted, stranger):
    Z = fitted("trial").transform(stranger)
    centred = stranger - stranger.mean(axis=-1, keepdims=True)
    expected = centred / np.sqrt(centred.var(axis=-1).mean(axis=-1))[:, None, None]
    np.testing.assert_allclose(Z, expected)
    assert Z.var(axis=-1).std() > 0.1, "which channel is stronger is still to be seen"


def test_population_is_the_mean_of_peoples_means_and_variances(known, fitted, stranger):
    X, subjects = known
    each = [X[subjects == s].transpose(1, 0, 2).reshape(N_CHANS, -1) for s in range(3)]
    mean = np.mean([x.mean(axis=1) for x in each], axis=0)[:, None]
    std = np.sqrt(np.mean([x.var(axis=1) for x in each], axis=0))[:, None]
    np.testing.assert_allclose(fitted("population").transform(stranger), (stranger - mean) / std)
    trained = SubjectNormalizer("population").fit_transform(X, subjects=subjects)
    np.testing.assert_allclose(trained, (X - mean) / std)


def test_person_uses_each_persons_own_mean_and_variance(known):
    X, subjects = known
    Z = SubjectNormalizer("subject").fit_transform(X, subjects=subjects)
    for s in range(3):
        np.testing.assert_allclose(Z[subjects == s].mean(axis=(0, 2)), 0, atol=1e-12)
        np.testing.assert_allclose(Z[subjects == s].std(axis=(0, 2)), 1)


@pytest.mark.parametrize("estimator", ["lwf", "scm", "oas"])
def test_euclidean_equals_moabbs_alignment_person_by_person(known, estimator):
    X, subjects = known
    Z = SubjectNormalizer("euclidean", estimator=estimator).fit_transform(X, subjects=subjects)
    for s in range(3):
        expected = EuclideanAlignment(estimator).fit_transform(X[subjects == s])
        np.testing.assert_allclose(Z[subjects == s], expected, rtol=1e-6, atol=1e-6)


def test_euclidean_makes_the_mean_covariance_the_identity(known):
    X, subjects = known
    Z = SubjectNormalizer("euclidean", estimator="scm").fit_transform(X, subjects=subjects)
    _, statistics = people_statistics(Z, subjects, "euclidean", "scm")
    np.testing.assert_allclose(statistics, np.broadcast_to(np.eye(N_CHANS), statistics.shape), atol=1e-10)


def test_none_is_a_copy(fitted, stranger):
    Z = fitted("none").transform(stranger)
    assert np.array_equal(Z, stranger)
    assert Z is not stranger


# ---- what may not be seen


@pytest.mark.parametrize("how", NORMALIZATIONS)
def test_a_trial_does_not_depend_on_the_trials_beside_it(fitted, stranger, how):
    for normalizer in (fitted(how), fitted(how).adapt(stranger[:7])):
        whole = quietly(normalizer, stranger)
        one_by_one = np.concatenate([quietly(normalizer, trial[None]) for trial in stranger])
        np.testing.assert_allclose(whole, one_by_one, atol=1e-5)
        spoilt = stranger.copy()
        spoilt[1:] *= 100
        np.testing.assert_allclose(quietly(normalizer, spoilt)[0], whole[0], atol=1e-5)


@pytest.mark.parametrize("how", sorted(set(NORMALIZATIONS) - {"population"}))
def test_a_training_person_does_not_depend_on_the_other_people(known, how):
    X, subjects = known
    Z = SubjectNormalizer(how).fit_transform(X, subjects=subjects)
    spoilt = np.where((subjects == 1)[:, None, None], X, 50 * X[::-1])
    again = SubjectNormalizer(how).fit_transform(spoilt, subjects=subjects)
    np.testing.assert_allclose(Z[subjects == 1], again[subjects == 1])
    np.testing.assert_allclose(normalize_people(X, subjects, how), Z)


@pytest.mark.parametrize("how", PERSONAL)
def test_everybody_counts_alike_however_many_trials_there_are(known, fitted, stranger, how):
    X, subjects = known
    more = np.concatenate([X, np.tile(X[subjects == 0], (3, 1, 1))])
    unequal = SubjectNormalizer(how).fit(more, subjects=np.concatenate([subjects, np.zeros(36, dtype=int)]))
    np.testing.assert_allclose(quietly(unequal, stranger), quietly(fitted(how), stranger))


# ---- the new person


@pytest.mark.parametrize("how", PERSONAL)
@pytest.mark.parametrize("name", ["X_target_unlabeled", "X_target_labeled"])
def test_target_trials_given_to_fit_are_those_given_to_adapt(known, fitted, stranger, how, name):
    X, subjects = known
    normalizer = SubjectNormalizer(how).fit(X, subjects=subjects, **{name: stranger[:8]})
    adapted = fitted(how).adapt(stranger[:8])
    np.testing.assert_allclose(normalizer.transform(stranger), adapted.transform(stranger))
    assert not np.allclose(adapted.transform(stranger), quietly(fitted(how), stranger), atol=0.1)


def test_adapt_shrinks_by_its_formula(known, fitted, stranger):
    normalizer, seen = fitted("subject", prior=5.0), stranger[:3]
    mean0, var0 = normalizer.population_
    mean = (5 * mean0 + 3 * seen.mean(axis=(0, 2))) / 8
    var = (5 * var0 + 3 * seen.var(axis=(0, 2))) / 8
    expected = (stranger - mean[:, None]) / np.sqrt(var)[:, None]
    np.testing.assert_allclose(normalizer.adapt(seen).transform(stranger), expected)


def test_euclidean_adapt_shrinks_the_covariance(fitted, stranger):
    normalizer, seen = fitted("euclidean", prior=2.0, estimator="scm"), stranger[:3]
    own = np.mean([np.cov(trial, bias=True) for trial in seen], axis=0)
    R = (2 * normalizer.population_ + 3 * own) / 5
    W = normalizer.adapt(seen).affine.weight
    np.testing.assert_allclose(W @ R @ W.T, np.eye(N_CHANS), atol=1e-10)
    np.testing.assert_allclose(W, W.T)


@pytest.mark.parametrize("how", NORMALIZATIONS)
def test_adapt_leaves_the_general_normalizer_untouched(fitted, stranger, how):
    normalizer = fitted(how)
    before = quietly(normalizer, stranger)
    adapted = normalizer.adapt(stranger)
    adapted.stream().transform(stranger)
    assert adapted is not normalizer
    assert np.array_equal(quietly(normalizer, stranger), before)
    np.testing.assert_allclose(
        adapted.adapt(stranger[:2]).transform(stranger), quietly(normalizer.adapt(stranger[:2]), stranger)
    )


# ---- invariances after adapting, the prior going to zero


def test_person_does_not_notice_a_gain_of_each_channel(fitted, stranger):
    gains, offsets = np.array([0.1, 3, 1, 20])[:, None], np.array([1, -50, 3, 0])[:, None]
    normalizer = fitted("subject", prior=0.0)
    plain = normalizer.adapt(stranger).transform(stranger)
    changed = gains * stranger + offsets
    np.testing.assert_allclose(normalizer.adapt(changed).transform(changed), plain, atol=1e-8)


def test_euclidean_does_not_notice_a_common_gain(fitted, stranger):
    normalizer = fitted("euclidean", prior=0.0)
    plain = normalizer.adapt(stranger).transform(stranger)
    np.testing.assert_allclose(normalizer.adapt(7 * stranger).transform(7 * stranger), plain, atol=1e-8)


def test_euclidean_undoes_a_mixing_of_channels_up_to_a_rotation(fitted, stranger):
    mixing = np.random.default_rng(3).normal(size=(N_CHANS, N_CHANS))
    normalizer = fitted("euclidean", prior=0.0, estimator="scm")
    plain = normalizer.adapt(stranger).transform(stranger)
    mixed = normalizer.adapt(mixing @ stranger).transform(mixing @ stranger)
    rotation = np.linalg.lstsq(
        plain.transpose(0, 2, 1).reshape(-1, N_CHANS),
        mixed.transpose(0, 2, 1).reshape(-1, N_CHANS),
        rcond=None,
    )[0].T
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(N_CHANS), atol=1e-8)
    np.testing.assert_allclose(rotation @ plain, mixed, atol=1e-8)
    assert np.abs(rotation - np.eye(N_CHANS)).max() > 0.1, "it is a rotation, not the identity"
    np.testing.assert_allclose(
        np.mean([np.cov(z, bias=True) for z in mixed], axis=0), np.eye(N_CHANS), atol=1e-8
    )


# ---- stream


def test_stream_follows_its_formula(fitted, stranger):
    normalizer = fitted("subject", prior=5.0)
    mean0, var0 = normalizer.population_
    found = normalizer.stream().transform(stranger)
    for n, trial in enumerate(stranger, 1):
        seen = stranger[:n]
        mean = (5 * mean0 + n * seen.mean(axis=(0, 2))) / (5 + n)
        var = (5 * var0 + n * seen.var(axis=(0, 2))) / (5 + n)
        np.testing.assert_allclose(found[n - 1], (trial - mean[:, None]) / np.sqrt(var)[:, None])


@pytest.mark.parametrize("how", NORMALIZATIONS)
def test_stream_is_causal_and_ends_where_adapt_does(fitted, stranger, how):
    found = fitted(how).stream().transform(stranger)
    later = np.concatenate([stranger[:10], 9 * stranger[:9:-1]])
    again = fitted(how).stream().transform(later)
    np.testing.assert_allclose(found[:10], again[:10])
    assert not np.allclose(found[10:], again[10:])
    np.testing.assert_allclose(found[-1], quietly(fitted(how).adapt(stranger), stranger)[-1], atol=1e-10)
    pieces = fitted(how).stream()
    parts = [pieces.transform(stranger[:4]), pieces.transform(stranger[4:])]
    np.testing.assert_allclose(np.concatenate(parts), found)


def test_stream_goes_on_from_the_trials_adapted_to(fitted, stranger):
    found = fitted("euclidean").adapt(stranger[:6]).stream().transform(stranger[6:])
    np.testing.assert_allclose(found, fitted("euclidean").stream().transform(stranger)[6:], atol=1e-10)


# ---- difficult signals


@pytest.mark.parametrize("how", NORMALIZATIONS)
@pytest.mark.parametrize(
    "kind", ["constant channel", "all constant", "one trial", "short", "one sample", "volts"]
)
def test_difficult_signals_give_finite_numbers(how, kind):
    X, subjects = people()
    if kind == "constant channel":
        X[:, 1] = 3e5
    elif kind == "all constant":
        X[:] = np.array([0, 0.1, 3, 1e6])[:, None]
    elif kind == "one trial":
        X, subjects = X[::12], subjects[::12]
    elif kind in ("short", "one sample"):
        X = X[..., : 2 if kind == "short" else 1]
    else:
        X = X * 1e-6
    X = X.astype(np.float32)
    normalizer = SubjectNormalizer(how)
    trained = normalizer.fit_transform(X, subjects=subjects)
    adapted = normalizer.adapt(X[:1])
    for Z in (trained, quietly(normalizer, X), quietly(adapted, X), normalizer.stream().transform(X)):
        assert np.isfinite(Z).all()
        assert Z.shape == X.shape
        assert Z.dtype == np.float32
    if kind == "constant channel" and how != "none":
        np.testing.assert_allclose(trained[:, 1], 0, atol=1e-6)
    if kind == "volts" and how != "none":
        scaled = SubjectNormalizer(how).fit_transform(X * np.float32(1e6), subjects=subjects)
        np.testing.assert_allclose(trained, scaled, rtol=1e-3, atol=1e-4)


# ---- inputs and outputs


@pytest.mark.parametrize("how", NORMALIZATIONS)
def test_tensors_epochs_and_datasets_give_what_arrays_give(known, how):
    X, subjects = known
    expected = SubjectNormalizer(how).fit_transform(X.astype(np.float32), subjects=subjects)
    tensor = torch.as_tensor(X, dtype=torch.float32)
    np.testing.assert_allclose(SubjectNormalizer(how).fit_transform(tensor, subjects=subjects), expected)
    info = mne.create_info(N_CHANS, 60.0, "eeg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        epochs = mne.EpochsArray(
            X * 1e-6, info, metadata=pd.DataFrame({"subject": subjects}), verbose="ERROR"
        )
    np.testing.assert_allclose(SubjectNormalizer(how).fit_transform(epochs), expected, atol=1e-3)
    dataset = torch.utils.data.TensorDataset(tensor, torch.zeros(len(X)))
    np.testing.assert_allclose(SubjectNormalizer(how).fit_transform(dataset, subjects=subjects), expected)


@pytest.mark.parametrize("how", NORMALIZATIONS)
def test_the_state_is_plain_and_gives_the_same_normalizer_again(fitted, stranger, how):
    for normalizer in (fitted(how), fitted(how).adapt(stranger[:5])):
        state = normalizer.get_state()
        assert all(isinstance(array, np.ndarray) for array in state["arrays"].values())
        state = {"settings": json.loads(json.dumps(state["settings"])), "arrays": state["arrays"]}
        again = SubjectNormalizer.from_state(state)
        assert np.array_equal(quietly(again, stranger), quietly(normalizer, stranger))
        assert np.array_equal(again.stream().transform(stranger), normalizer.stream().transform(stranger))


@pytest.mark.parametrize("how", ["population", *PERSONAL])
def test_known_statistics_of_some_people_are_a_fit_on_these_people(known, stranger, how):
    X, subjects = known
    labels, statistics = people_statistics(X, subjects, how)
    kept = labels != 1
    made = SubjectNormalizer.from_people(how, labels[kept], statistics[kept], N_CHANS)
    part = subjects != 1
    expected = SubjectNormalizer(how).fit(X[part], subjects=subjects[part])
    np.testing.assert_allclose(quietly(made, stranger), quietly(expected, stranger))


def test_clone_and_pickle(fitted, stranger):
    normalizer = fitted("euclidean", prior=3.0).adapt(stranger)
    assert clone(normalizer).get_params() == {"strategy": "euclidean", "prior": 3.0, "estimator": "lwf"}
    again = pickle.loads(pickle.dumps(normalizer))
    assert np.array_equal(again.transform(stranger), normalizer.transform(stranger))


# ---- messages


@pytest.mark.parametrize("how", PERSONAL)
def test_without_target_data_one_warning_names_adapt(fitted, stranger, how):
    normalizer = fitted(how)
    with pytest.warns(UserWarning, match=r"no trials of the new person.*adapt\(X\)") as caught:
        normalizer.transform(stranger)
        normalizer.transform(stranger)
    assert len(caught) == 1


@pytest.mark.parametrize("how", ["trial_channel", "trial", "population", "none"])
def test_what_needs_no_person_does_not_warn(fitted, stranger, how):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(how).transform(stranger)


def test_unknown_names_list_the_choices(known):
    X, subjects = known
    with pytest.raises(ValueError, match=r"strategy='Euclidian' is unknown; choose from .*'trial_channel'"):
        SubjectNormalizer("Euclidian").fit(X, subjects=subjects)
    with pytest.raises(ValueError, match=r"estimator='ledoit' is unknown; choose from .*'lwf'"):
        SubjectNormalizer("euclidean", estimator="ledoit").fit(X, subjects=subjects)
    with pytest.raises(ValueError, match="strategy='population' is unknown"):
        normalize_people(X, subjects, "population")
    with pytest.raises(ValueError, match="prior=-1 must be a positive number or zero"):
        SubjectNormalizer("subject", prior=-1).fit(X, subjects=subjects)


@pytest.mark.parametrize("how", ["population", *PERSONAL])
def test_missing_subjects(known, how):
    with pytest.raises(ValueError, match="subjects=None: pass one label per trial, or zeros"):
        SubjectNormalizer(how).fit(known[0])
    with pytest.raises(ValueError, match=r"subjects has shape \(3,\) and X has 36 trials"):
        SubjectNormalizer(how).fit(known[0], subjects=[1, 2, 3])


def test_trialwise_normalisations_need_no_subjects(known):
    for how in ("trial_channel", "trial", "none"):
        assert np.isfinite(SubjectNormalizer(how).fit_transform(known[0])).all()


@pytest.mark.parametrize("how", NORMALIZATIONS)
@pytest.mark.parametrize("method", ["transform", "adapt"])
def test_bad_signals(fitted, stranger, how, method):
    act = getattr(fitted(how), method)
    with pytest.raises(ValueError, match="X has 3 channels, but the normalizer was fitted on 4"):
        act(stranger[:, :3])
    with pytest.raises(ValueError, match="NaN or infinite values in 1 of 20 trials, first in trial 5"):
        spoilt = stranger.copy()
        spoilt[5, 0, 0] = np.nan
        act(spoilt)
    with pytest.raises(ValueError, match=r"X has shape \(0, 4, 60\)"):
        act(stranger[:0])


def test_not_fitted(stranger):
    with pytest.raises(Exception, match="not fitted yet"):
        SubjectNormalizer().transform(stranger)
