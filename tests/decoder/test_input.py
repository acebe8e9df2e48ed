"""The input of a decoder: channels that are signals, by name, in one unit, at one sampling rate."""

import warnings

import mne
import numpy as np
import pandas as pd
import pytest
from subjects import fit_decoder, mixed_subjects

from braindecode_censor.trials.dataset import read_signals, signal_names

X, Y, SUBJECTS = mixed_subjects(5)
NAMES, SFREQ = ["Fz", "Cz", "Pz", "Oz"], 64.0
TRAIN = SUBJECTS < 5
NEW = X[~TRAIN]


def epochs(signals, names=NAMES, ch_types="eeg", bads=(), subjects=None, sfreq=SFREQ):
    """Return trials in microvolts as MNE keeps them, in volts."""
    info = mne.create_info(names, sfreq, ch_types)
    info["bads"] = list(bads)
    zeros = np.zeros(len(signals), int)
    events = np.column_stack([np.arange(len(signals)) * 1000, zeros, zeros + 1])
    metadata = None if subjects is None else pd.DataFrame({"subject": subjects})
    return mne.EpochsArray(np.asarray(signals) * 1e-6, info, events, metadata=metadata, verbose="error")


def fit(trials, subjects=SUBJECTS[TRAIN], **options):
    return fit_decoder(trials, Y[TRAIN], subjects, max_trainings=6, **options)


@pytest.fixture(scope="module")
def fitted():
    return fit(epochs(X[TRAIN], subjects=SUBJECTS[TRAIN]), subjects=None)


def with_other_channels(signals, y):
    """Return Epochs with a trigger that gives the class, an eye and a bad channel."""
    trigger = np.repeat(y[:, None, None] + 1.0, signals.shape[2], axis=2)
    eye = np.full_like(trigger, 50.0) + signals[:, :1]
    return epochs(
        np.concatenate([trigger, signals, eye, 99 * signals[:, :1]], axis=1),
        ["STI", *NAMES, "EOG", "P9"],
        ["stim", *["eeg"] * 4, "eog", "eeg"],
        bads=["P9"],
    )


def test_triggers_eyes_and_bad_channels_are_not_decoded(fitted):
    others, plain = with_other_channels(X[TRAIN], Y[TRAIN]), epochs(X[TRAIN])
    assert signal_names(others) == NAMES
    np.testing.assert_allclose(read_signals(others)[0], read_signals(plain)[0], rtol=1e-6)
    clf = fit(others)
    assert clf.input_.ch_names == NAMES and clf.heldout_.scores == fitted.heldout_.scores
    y = Y[~TRAIN]
    P = clf.adapt(with_other_channels(NEW, y)).predict_proba(with_other_channels(NEW, 1 - y))
    np.testing.assert_allclose(P, fitted.adapt(epochs(NEW)).predict_proba(epochs(NEW)), atol=1e-6)


def test_channels_are_ordered_by_name(fitted):
    assert fitted.input_.ch_names == NAMES and fitted.input_.sfreq == 64
    plain = fitted.adapt(epochs(NEW)).predict_proba(epochs(NEW))
    order = [2, 0, 3, 1]
    more = epochs(np.concatenate([NEW[:, :1], NEW[:, order]], axis=1), ["EOG", *(NAMES[k] for k in order)])
    np.testing.assert_allclose(fitted.adapt(more).predict_proba(more), plain, atol=1e-6)


@pytest.mark.parametrize(
    "trials, message",
    [
        (epochs(NEW[:, :3], NAMES[:3]), "X lacks 1 of the decoder's 4 channels: Oz"),
        (epochs(NEW, sfreq=32.0), "X has 32 samples per second, the decoder was fitted with 64"),
        (NEW[:, :3], "X has 3 channels, the decoder was fitted with 4"),
        (NEW[..., :60], "X has 60 samples per trial, the decoder was fitted with 64"),
    ],
)
def test_predict_refuses_other_channels_rates_and_lengths(fitted, trials, message):
    with pytest.raises(ValueError, match=message):
        fitted.predict(trials)


def test_most_frequent_channel_type_is_decoded():
    assert signal_names(epochs(X, ch_types=["emg", "eeg", "emg", "emg"])) == ["Fz", "Pz", "Oz"]
    with pytest.raises(ValueError, match="X has no good channel of eeg, ecog, emg, seeg, but misc"):
        read_signals(epochs(X, ch_types="misc"))
    with pytest.raises(ValueError, match="X has no good channel"):
        read_signals(epochs(X, bads=NAMES))


def test_other_units_are_a_warning(fitted):
    with pytest.warns(UserWarning, match="are these volts and microvolts"):
        fitted.adapt(epochs(NEW).get_data())  # volts, as MNE returns them
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adapted = fitted.adapt(5 * NEW)
        adapted.predict(NEW[:1] / 5)
    with pytest.warns(UserWarning) as caught:
        adapted.predict(np.zeros_like(NEW))  # Silence has no unit.
    assert [str(w.message) for w in caught] == ["X: no signal, all channels are constant in all trials."]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"sfreq": 128.0}, "sfreq=128, but X has 64 samples per second"),
        ({"ch_names": list("abcd")}, "ch_names differ from those of X, Fz, Cz, Pz, Oz"),
    ],
)
def test_fit_refuses_options_that_contradict_epochs(options, message):
    with pytest.raises(ValueError, match=message):
        fit(epochs(X[TRAIN]), **options)
