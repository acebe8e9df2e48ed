"""Subjects whose caps differ: common channels in a fit, estimates of missing ones afterwards, refusals by name."""

import warnings

import mne
import numpy as np
import pandas as pd
import pytest
from subjects import mixed_subjects

import braindecode_censor as bc
from braindecode_censor.decoder.caps import arrange_channels, channel_covariance, join_caps

NAMES = ["Fz", "Cz", "Pz", "Oz", "C3", "C4", "P3", "P4"]
X, Y, SUBJECTS = mixed_subjects(5, n_chans=8)
TRAIN = SUBJECTS < 5


def epochs(signals, names=NAMES, y=None, subjects=None):
    info = mne.create_info(list(names), 64.0, "eeg")
    y = np.zeros(len(signals), int) if y is None else y
    events = np.column_stack([np.arange(len(signals)) * 1000, 0 * y, y + 1])
    metadata = None if subjects is None else pd.DataFrame({"subject": subjects})
    return mne.EpochsArray(1e-6 * signals, info, events, metadata=metadata, verbose="error")


def fit(trials, **labels):
    clf = bc.AutoTransferClassifier(candidates=["riemann"], max_trainings=3, device="cpu", verbose=0)
    return clf.fit(trials, **labels)


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(epochs(X[TRAIN]), y=Y[TRAIN], subjects=SUBJECTS[TRAIN])


def without(signals, *names):
    idx = [k for k, name in enumerate(NAMES) if name not in names]
    return epochs(signals[:, idx], [NAMES[k] for k in idx])


def test_missing_channels_are_what_the_others_tell_of_them():
    rng = np.random.default_rng(0)
    sources, subjects = rng.standard_normal((40, 3, 64)), np.arange(40) % 2
    mixed = rng.standard_normal((8, 3)) @ sources  # Six channels tell all of the other two.
    mixed[subjects == 1] *= 1e6  # Subjects count alike, in any unit.
    covariance = channel_covariance(mixed, subjects)
    present = [4, 7, 1, 2, 6, 3]
    names = [NAMES[k] for k in present]
    message = r"X lacks 2 of the decoder's 8 channels, which are estimated .* \(100% of .*\): Fz, C4\."
    with pytest.warns(UserWarning, match=message):
        full = arrange_channels("X", mixed[:4, present], names, NAMES, covariance)
    spread = mixed[:4].std(axis=2, keepdims=True)
    np.testing.assert_allclose(full / spread, mixed[:4] / spread, atol=0.02)
    with pytest.raises(ValueError, match=r": Fz, C4\. They cannot .* the others tell 0% of their variance"):
        arrange_channels("X", mixed[:4, present], names, NAMES, np.eye(8) / 8)
    upper = [name.upper() for name in names]
    with pytest.raises(ValueError, match="X has a channel 'CZ', the decoder 'Cz': give it the same name"):
        arrange_channels("X", mixed[:4, present], upper, NAMES, covariance)


def test_the_average_of_fewer_channels_is_another_reference():
    rng = np.random.default_rng(0)
    potential = rng.standard_normal((8, 3)) @ rng.standard_normal((40, 3, 64)) + 0.1 * rng.standard_normal(
        (40, 8, 64)
    )
    training = potential - potential.mean(axis=1, keepdims=True)
    covariance = channel_covariance(training, np.arange(40) % 2)
    there = potential[:, 1:] - potential[:, 1:].mean(axis=1, keepdims=True)
    with pytest.warns(UserWarning, match=r"\(9\d% of"):
        full = arrange_channels("X", there, NAMES[1:], NAMES, covariance)
    np.testing.assert_allclose(full.sum(axis=1), 0, atol=1e-6)
    assert (full - training).var() < 0.02 * training.var()
    with pytest.warns(UserWarning):  # The reference of what is left does not matter.
        same = arrange_channels("X", training[:, 1:], NAMES[1:], NAMES, covariance)
    np.testing.assert_allclose(same, full, atol=1e-6)


def test_covariance_is_of_training_subjects_alone(fitted, tmp_path):
    np.testing.assert_allclose(
        fitted.input_.covariance, channel_covariance(X[TRAIN], SUBJECTS[TRAIN]), rtol=1e-4
    )
    loaded = bc.AutoTransferClassifier.load(fitted.save(tmp_path / "decoder") or tmp_path / "decoder")
    new = without(X[~TRAIN], "Pz")
    with pytest.warns(UserWarning, match="estimated"):
        P, again = (clf.adapt(new).predict_proba(new) for clf in (fitted, loaded))
    np.testing.assert_allclose(again, P, atol=1e-6)


def test_missing_channels_are_estimated_and_the_scores_marked(fitted):
    new = X[~TRAIN]
    with pytest.warns(
        UserWarning, match=r"estimated .*: Fz, C4\. The decoder's expected score was not measured"
    ):
        adapted = fitted.adapt(without(new, "Fz", "C4"))
        P = adapted.predict_proba(without(new, "Fz", "C4"))
    assert np.isfinite(P).all()
    limit = "The scores were not measured for a cap without Fz, C4"
    assert adapted.heldout_.warnings[-1] == limit and limit in adapted.model_card
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = {"y": Y[TRAIN], "subjects": SUBJECTS[TRAIN]}
        at_once = fit(epochs(X[TRAIN]), **labels, X_target_unlabeled=without(new, "Fz", "C4"))
    assert limit in at_once.model_card
    np.testing.assert_allclose(at_once.predict_proba(without(new, "Fz", "C4")), P, atol=1e-6)
    assert limit not in fitted.model_card and limit not in fitted.adapt(epochs(new)).model_card
    streamed = fitted.stream()
    with pytest.warns(UserWarning, match="estimated"):
        streamed.predict_proba(without(new[:2], "Fz"))


def test_too_few_channels_are_refused_by_name(fitted):
    with pytest.raises(ValueError, match=r"X lacks 5 of .*: Oz, C3, C4, P3, P4\. .*too few others are left"):
        fitted.adapt(without(X[~TRAIN], *NAMES[3:]))


def test_fit_uses_the_common_channels():
    caps = []
    for subject in range(1, 5):
        rows = subject == SUBJECTS
        names = NAMES if subject % 2 else NAMES[::-1][1:]
        idx = [NAMES.index(name) for name in names]
        caps.append(epochs(X[rows][:, idx], names, Y[rows], SUBJECTS[rows]))
    with pytest.warns(UserWarning, match="7 of 8 channels in common, and these are used: Fz, Cz"):
        clf = fit(caps)
    assert sorted(clf.input_.ch_names) == sorted(NAMES[:-1])
    order = [NAMES.index(name) for name in clf.input_.ch_names]
    labels = {"y": Y[TRAIN] + 1, "subjects": SUBJECTS[TRAIN]}
    plain = fit(epochs(X[TRAIN][:, order], clf.input_.ch_names), **labels)
    assert clf.heldout_.scores == plain.heldout_.scores
    assert len(clf.adapt(epochs(X[~TRAIN])).predict(epochs(X[~TRAIN]))) == sum(~TRAIN)


def test_too_few_common_channels_are_an_error():
    caps = [epochs(X[:4, :5], NAMES[:5]), epochs(X[:4, 3:], NAMES[3:])]
    with pytest.raises(ValueError, match=r"2 caps have 2 channels in common \(Oz, C3\), but at least 4"):
        join_caps(caps)
    assert join_caps(X) is X
