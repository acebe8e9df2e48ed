"""Every normalisation is its formula, and maps a trial independently of the trials beside it."""

import json
import warnings
from typing import ClassVar

import mne
import numpy as np
import pandas as pd
import pytest
import torch
from moabb.datasets.preprocessing import EuclideanAlignment
from moabb.evaluations import CrossSubjectEvaluation
from moabb.evaluations.protocols import CrossSubjectMode
from pyriemann.estimation import Covariances
from pyriemann.tangentspace import TangentSpace
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline

from braindecode_censor.datasets import ERP, SimulatedSubjects
from braindecode_censor.trials.normalizations import (
    NORMALIZATIONS,
    SUBJECTWISE,
    TRIALWISE,
    normalize_subjects,
    subject_statistics,
)
from braindecode_censor.trials.normalize import SubjectNormalizer

N_CHANS = 4


def make_trials(n_subjects=3, n_trials=12, n_times=60, seed=0):
    """Return trials of subjects that differ by offset, by gain and by the mixing of their channels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_subjects, n_trials, N_CHANS, n_times))
    X *= rng.lognormal(sigma=0.5, size=(n_subjects, n_trials, 1, 1))
    mixing = rng.normal(size=(n_subjects, 1, N_CHANS, N_CHANS)) + 2 * np.eye(N_CHANS)
    X = mixing @ X + 5 * rng.normal(size=(n_subjects, 1, N_CHANS, 1))
    return X.reshape(-1, N_CHANS, n_times), np.repeat(np.arange(n_subjects), n_trials)


@pytest.fixture(scope="module")
def source():
    return make_trials()


@pytest.fixture(scope="module")
def target():
    return make_trials(1, 20, seed=9)[0]


@pytest.fixture
def fitted(source):
    return lambda strategy, **options: SubjectNormalizer(strategy, **options).fit(
        source[0], subjects=source[1]
    )


def quietly(normalizer, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return normalizer.transform(X)


# ---- what each normalisation is


def test_trial_channel_standardises_every_channel(fitted, target):
    Z = fitted("trial_channel").transform(target)
    np.testing.assert_allclose(Z.mean(axis=-1), 0, atol=1e-12)
    np.testing.assert_allclose(Z.std(axis=-1), 1)


def test_trial_keeps_relative_channel_variances(fitted, target):
    Z = fitted("trial").transform(target)
    centred = target - target.mean(axis=-1, keepdims=True)
    expected = centred / np.sqrt(centred.var(axis=-1).mean(axis=-1))[:, None, None]
    np.testing.assert_allclose(Z, expected)
    assert Z.var(axis=-1).std() > 0.1, "which channel is stronger is still to be block"


def test_population_is_the_mean_of_subject_statistics(source, fitted, target):
    X, subjects = source
    each = [X[subjects == s].transpose(1, 0, 2).reshape(N_CHANS, -1) for s in range(3)]
    # The mean of shapes, at the median of the subjects' amplitudes.
    sizes = np.array([np.sqrt(np.median(x.var(axis=1))) for x in each])
    mean = (
        np.median(sizes) * np.mean([x.mean(axis=1) / size for x, size in zip(each, sizes)], axis=0)[:, None]
    )
    var = np.median(sizes) ** 2 * np.mean([x.var(axis=1) / size**2 for x, size in zip(each, sizes)], axis=0)
    std = np.sqrt(var)[:, None]
    np.testing.assert_allclose(fitted("population").transform(target), (target - mean) / std)
    trained = SubjectNormalizer("population").fit_transform(X, subjects=subjects)
    np.testing.assert_allclose(trained, (X - mean) / std)


def test_subject_standardises_every_subject(source):
    X, subjects = source
    Z = SubjectNormalizer("subject").fit_transform(X, subjects=subjects)
    for s in range(3):
        np.testing.assert_allclose(Z[subjects == s].mean(axis=(0, 2)), 0, atol=1e-12)
        np.testing.assert_allclose(Z[subjects == s].std(axis=(0, 2)), 1)


@pytest.mark.parametrize("estimator", ["lwf", "scm", "oas"])
def test_euclidean_equals_alignment_of_moabb(source, estimator):
    X, subjects = source
    Z = SubjectNormalizer("euclidean", estimator=estimator).fit_transform(X, subjects=subjects)
    for s in range(3):
        expected = EuclideanAlignment(estimator).fit_transform(X[subjects == s])
        np.testing.assert_allclose(Z[subjects == s], expected, rtol=1e-6, atol=1e-6)


def test_none_is_a_copy(fitted, target):
    Z = fitted("none").transform(target)
    assert np.array_equal(Z, target)
    assert Z is not target


# ---- independence


@pytest.mark.parametrize("strategy", NORMALIZATIONS)
def test_trials_are_independent(fitted, target, strategy):
    for normalizer in (fitted(strategy), fitted(strategy).adapt(target[:7])):
        whole = quietly(normalizer, target)
        one_by_one = np.concatenate([quietly(normalizer, trial[None]) for trial in target])
        np.testing.assert_allclose(whole, one_by_one, atol=1e-5)
        spoilt = target.copy()
        spoilt[1:] *= 100
        np.testing.assert_allclose(quietly(normalizer, spoilt)[0], whole[0], atol=1e-5)


@pytest.mark.parametrize("strategy", sorted(set(NORMALIZATIONS) - {"population"}))
def test_training_subjects_are_independent(source, strategy):
    X, subjects = source
    Z = SubjectNormalizer(strategy).fit_transform(X, subjects=subjects)
    changed = np.where((subjects == 1)[:, None, None], X, 50 * X[::-1])
    again = SubjectNormalizer(strategy).fit_transform(changed, subjects=subjects)
    np.testing.assert_allclose(Z[subjects == 1], again[subjects == 1])
    np.testing.assert_allclose(normalize_subjects(X, subjects, strategy), Z)


@pytest.mark.parametrize("strategy", SUBJECTWISE)
def test_subjects_count_alike_whatever_their_trials(source, fitted, target, strategy):
    X, subjects = source
    more = np.concatenate([X, np.tile(X[subjects == 0], (3, 1, 1))])
    unequal = SubjectNormalizer(strategy).fit(
        more, subjects=np.concatenate([subjects, np.zeros(36, dtype=int)])
    )
    np.testing.assert_allclose(quietly(unequal, target), quietly(fitted(strategy), target))


# ---- target data


@pytest.mark.parametrize("strategy", SUBJECTWISE)
@pytest.mark.parametrize("name", ["X_target_unlabeled", "X_target_labeled"])
def test_fit_with_target_data_equals_adapt(source, fitted, target, strategy, name):
    X, subjects = source
    normalizer = SubjectNormalizer(strategy).fit(X, subjects=subjects, **{name: target[:8]})
    adapted = fitted(strategy).adapt(target[:8])
    np.testing.assert_allclose(normalizer.transform(target), adapted.transform(target))
    assert not np.allclose(adapted.transform(target), quietly(fitted(strategy), target), atol=0.1)


def test_adapt_shrinks_by_its_formula(source, fitted, target):
    normalizer, block = fitted("subject", prior=5.0), target[:3]
    prior = normalizer.amplitude_
    level = prior.estimate(0.5 * np.log(np.median(block.var(axis=(0, 2)))), 3)
    gain = np.exp(level - prior.centre)
    mean0, var0 = normalizer.population_ * np.array([gain, gain**2])[:, None]
    mean = (5 * mean0 + 3 * block.mean(axis=(0, 2))) / 8
    var = (5 * var0 + 3 * block.var(axis=(0, 2))) / 8
    expected = (target - mean[:, None]) / np.sqrt(var)[:, None]
    np.testing.assert_allclose(normalizer.adapt(block).transform(target), expected)


def test_euclidean_adapt_shrinks_the_covariance(fitted, target):
    normalizer, block = fitted("euclidean", prior=2.0, estimator="scm"), target[:3]
    covariance = np.mean([np.cov(trial, bias=True) for trial in block], axis=0)
    prior = normalizer.amplitude_
    level = prior.estimate(0.5 * np.log(np.median(np.diag(covariance))), 3, prior=2.0)
    R = (2 * np.exp(2 * (level - prior.centre)) * normalizer.population_ + 3 * covariance) / 5
    W = normalizer.adapt(block).affine.weight
    np.testing.assert_allclose(W @ R @ W.T, np.eye(N_CHANS), atol=1e-10)
    np.testing.assert_allclose(W, W.T)


@pytest.mark.parametrize("strategy", NORMALIZATIONS)
def test_adapt_returns_another_normalizer(fitted, target, strategy):
    normalizer = fitted(strategy)
    before = quietly(normalizer, target)
    adapted = normalizer.adapt(target)
    adapted.stream().transform(target)
    assert adapted is not normalizer
    assert np.array_equal(quietly(normalizer, target), before)
    np.testing.assert_allclose(
        adapted.adapt(target[:2]).transform(target), quietly(normalizer.adapt(target[:2]), target)
    )


# ---- invariances after adapting, the prior going to zero


def test_subject_is_invariant_to_channel_gains(fitted, target):
    gains, offsets = np.array([0.1, 3, 1, 20])[:, None], np.array([1, -50, 3, 0])[:, None]
    normalizer = fitted("subject", prior=0.0)
    plain = normalizer.adapt(target).transform(target)
    changed = gains * target + offsets
    np.testing.assert_allclose(normalizer.adapt(changed).transform(changed), plain, atol=1e-8)


@pytest.mark.parametrize("strategy", SUBJECTWISE)
@pytest.mark.parametrize("gain", [0.01, 0.1, 3.0, 100.0])
def test_gain_does_not_matter(fitted, target, strategy, gain):
    """With the prior of five trials, too."""
    normalizer = fitted(strategy)
    plain = normalizer.adapt(target).transform(target)
    np.testing.assert_allclose(
        normalizer.adapt(gain * target).transform(gain * target), plain, rtol=0.02, atol=0.01
    )
    stream, loud = normalizer.stream().transform(target), normalizer.stream().transform(gain * target)
    np.testing.assert_allclose(loud[-1], stream[-1], rtol=0.02, atol=0.01)


@pytest.mark.parametrize("strategy", ["population", *SUBJECTWISE])
@pytest.mark.parametrize("gain", [1e-6, 1e6])
def test_subject_in_another_unit_does_not_change_the_population(source, target, strategy, gain):
    X, subjects = source
    changed = np.where((subjects == 1)[:, None, None], gain * X, X)
    plain, other = (SubjectNormalizer(strategy).fit(x, subjects=subjects) for x in (X, changed))
    ratio = quietly(other, target).std() / quietly(plain, target).std()
    assert 0.5 < ratio < 2  # another subject is in the middle now
    assert abs(np.corrcoef(quietly(other, target).ravel(), quietly(plain, target).ravel())[0, 1] - 1) < 0.02


def test_euclidean_is_invariant_to_a_common_gain(fitted, target):
    normalizer = fitted("euclidean", prior=0.0)
    plain = normalizer.adapt(target).transform(target)
    np.testing.assert_allclose(normalizer.adapt(7 * target).transform(7 * target), plain, atol=1e-8)


# ---- stream


@pytest.mark.parametrize("strategy", NORMALIZATIONS)
def test_stream_is_causal_and_ends_at_adapt(fitted, target, strategy):
    stream = fitted(strategy).stream().transform(target)
    later = np.concatenate([target[:10], 9 * target[:9:-1]])
    again = fitted(strategy).stream().transform(later)
    np.testing.assert_allclose(stream[:10], again[:10])
    assert not np.allclose(stream[10:], again[10:])
    np.testing.assert_allclose(stream[-1], quietly(fitted(strategy).adapt(target), target)[-1], atol=1e-10)
    pieces = fitted(strategy).stream()
    parts = [pieces.transform(target[:4]), pieces.transform(target[4:])]
    np.testing.assert_allclose(np.concatenate(parts), stream)


def test_stream_continues_after_adapt(fitted, target):
    stream = fitted("euclidean").adapt(target[:6]).stream().transform(target[6:])
    np.testing.assert_allclose(stream, fitted("euclidean").stream().transform(target)[6:], atol=1e-10)


# ---- difficult signals


@pytest.mark.parametrize("strategy", NORMALIZATIONS)
@pytest.mark.parametrize(
    "kind", ["constant channel", "all constant", "one trial", "short", "one sample", "volts"]
)
def test_degenerate_signals_give_finite_numbers(strategy, kind):
    X, subjects = make_trials()
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
    normalizer = SubjectNormalizer(strategy)
    trained = normalizer.fit_transform(X, subjects=subjects)
    adapted = normalizer.adapt(X[:1])
    for Z in (trained, quietly(normalizer, X), quietly(adapted, X), normalizer.stream().transform(X)):
        assert np.isfinite(Z).all()
        assert Z.shape == X.shape
        assert Z.dtype == np.float32
    if kind == "constant channel" and strategy != "none":
        np.testing.assert_allclose(trained[:, 1], 0, atol=1e-6)
    if kind == "volts" and strategy != "none":
        scaled = SubjectNormalizer(strategy).fit_transform(X * np.float32(1e6), subjects=subjects)
        np.testing.assert_allclose(trained, scaled, rtol=1e-3, atol=1e-4)


# ---- inputs and outputs


@pytest.mark.parametrize("strategy", NORMALIZATIONS)
def test_tensors_epochs_and_datasets_equal_arrays(source, strategy):
    X, subjects = source
    expected = SubjectNormalizer(strategy).fit_transform(X.astype(np.float32), subjects=subjects)
    tensor = torch.as_tensor(X, dtype=torch.float32)
    np.testing.assert_allclose(SubjectNormalizer(strategy).fit_transform(tensor, subjects=subjects), expected)
    info = mne.create_info(N_CHANS, 60.0, "eeg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        epochs = mne.EpochsArray(
            X * 1e-6, info, metadata=pd.DataFrame({"subject": subjects}), verbose="ERROR"
        )
    np.testing.assert_allclose(SubjectNormalizer(strategy).fit_transform(epochs), expected, atol=1e-3)
    dataset = torch.utils.data.TensorDataset(tensor, torch.zeros(len(X)))
    np.testing.assert_allclose(
        SubjectNormalizer(strategy).fit_transform(dataset, subjects=subjects), expected
    )


@pytest.mark.parametrize("strategy", NORMALIZATIONS)
def test_state_round_trip(fitted, target, strategy):
    for normalizer in (fitted(strategy), fitted(strategy).adapt(target[:5])):
        state = normalizer.get_state()
        assert all(isinstance(array, np.ndarray) for array in state["arrays"].values())
        state = {"settings": json.loads(json.dumps(state["settings"])), "arrays": state["arrays"]}
        again = SubjectNormalizer.from_state(state)
        assert np.array_equal(quietly(again, target), quietly(normalizer, target))
        assert np.array_equal(again.stream().transform(target), normalizer.stream().transform(target))


@pytest.mark.parametrize("strategy", ["population", *SUBJECTWISE])
def test_from_statistics_equals_fit(source, target, strategy):
    X, subjects = source
    labels, statistics, spreads = subject_statistics(X, subjects, strategy)
    is_source = labels != 1
    made = SubjectNormalizer.from_statistics(
        strategy, labels[is_source], statistics[is_source], N_CHANS, spreads=spreads[is_source]
    )
    idx = subjects != 1
    expected = SubjectNormalizer(strategy).fit(X[idx], subjects=subjects[idx])
    np.testing.assert_allclose(quietly(made, target), quietly(expected, target))
    np.testing.assert_allclose(quietly(made.adapt(target), target), quietly(expected.adapt(target), target))


# ---- in pipelines and in MOABB


DATA = {"n_subjects": 4, "n_trials": 24, "n_chans": 4, "sfreq": 64.0}


def tangent_space(*steps):
    return make_pipeline(*steps, Covariances("lwf"), TangentSpace(), LinearDiscriminantAnalysis())


class Recorded(SubjectNormalizer):
    """Records what MOABB passes, and the number of target trials."""

    calls: ClassVar = []

    def fit_transform(self, X, y=None, **params):
        out = super().fit_transform(X, y, **params)
        self.calls.append((set(params), self.n_target_))
        return out


@pytest.mark.parametrize(
    ("mode", "names", "fraction"),
    [
        ("TRAIN", set(), 0),
        ("TRAIN_AND_TARGET_UNLABELED_20P", {"X_target_unlabeled"}, 0.2),
        ("TRAIN_AND_TARGET_UNLABELED_FULL", {"X_target_unlabeled"}, 1),
        ("TRAIN_AND_TARGET_LABELED_50P", {"X_target_labeled", "y_target_labeled"}, 0.5),
    ],
)
def test_modes_of_moabb(mode, names, fraction, tmp_path):
    Recorded.calls.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = CrossSubjectEvaluation(
            ERP(scorer="accuracy"),
            datasets=[SimulatedSubjects(**DATA)],
            cs_mode=CrossSubjectMode[mode],
            hdf5_path=str(tmp_path),
            overwrite=True,
        )
        results = evaluation.process({"ts": tangent_space(Recorded("euclidean"))})
    assert len(results) == 4
    assert all(params == {"subjects"} | names for params, _ in Recorded.calls)
    assert [n for _, n in Recorded.calls] == pytest.approx([24 * fraction] * 4, abs=1)


# ---- messages


@pytest.mark.parametrize("strategy", SUBJECTWISE)
def test_missing_target_data_warn_once(fitted, target, strategy):
    normalizer = fitted(strategy)
    with pytest.warns(UserWarning, match=r"no trials of the new subject.*adapt\(X\)") as caught:
        normalizer.transform(target)
        normalizer.transform(target)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for trialwise in (*TRIALWISE, "population"):
            fitted(trialwise).transform(target)


def test_unknown_names_list_the_choices(source):
    X, subjects = source
    with pytest.raises(ValueError, match=r"strategy='Euclidian' is unknown; choose from .*'trial_channel'"):
        SubjectNormalizer("Euclidian").fit(X, subjects=subjects)
    with pytest.raises(ValueError, match=r"estimator='ledoit' is unknown; choose from .*'lwf'"):
        SubjectNormalizer("euclidean", estimator="ledoit").fit(X, subjects=subjects)
    with pytest.raises(ValueError, match="prior=-1 must be a positive number or zero"):
        SubjectNormalizer("subject", prior=-1).fit(X, subjects=subjects)


@pytest.mark.parametrize("strategy", ["population", *SUBJECTWISE])
def test_missing_subjects(source, strategy):
    with pytest.raises(ValueError, match="subjects=None: pass one label per trial, or zeros"):
        SubjectNormalizer(strategy).fit(source[0])
    with pytest.raises(ValueError, match=r"subjects has shape \(3,\) and X has 36 trials"):
        SubjectNormalizer(strategy).fit(source[0], subjects=[1, 2, 3])


@pytest.mark.parametrize("strategy", NORMALIZATIONS)
@pytest.mark.parametrize("method", ["transform", "adapt"])
def test_bad_signals(fitted, target, strategy, method):
    act = getattr(fitted(strategy), method)
    with pytest.raises(ValueError, match="X has 3 channels, but the normalizer was fitted on 4"):
        act(target[:, :3])
    with pytest.raises(ValueError, match="NaN or infinite values in 1 of 20 trials, first in trial 5"):
        spoilt = target.copy()
        spoilt[5, 0, 0] = np.nan
        act(spoilt)
    with pytest.raises(ValueError, match=r"X has shape \(0, 4, 60\)"):
        act(target[:0])


@pytest.mark.parametrize("strategy", ["trial", "subject"])
def test_state_of_a_normaliser_made_from_statistics_is_read_again(strategy):
    """As fleets make them, without statistics where a strategy needs none."""
    X, subjects = np.random.default_rng(0).normal(size=(12, 3, 50)), np.repeat([1, 2], 6)
    made = SubjectNormalizer(strategy).fit(X, subjects=subjects)
    if strategy == "trial":
        made = SubjectNormalizer.from_statistics(strategy, [], None, 3)
    again = SubjectNormalizer.from_state(made.get_state())
    np.testing.assert_array_equal(again.adapt(X).transform(X), made.adapt(X).transform(X))
