"""What a decoder takes: channels that are signals, one unit, and a sampling rate that Epochs know by themselves."""

import warnings

import mne
import numpy as np
import pytest
from subjects import mixed_subjects

import braindecode_censor as bc
from braindecode_censor.trials.dataset import read_signals, signal_names

X, Y, SUBJECTS = mixed_subjects(5)
NAMES, SFREQ = ["Fz", "Cz", "Pz", "Oz"], 64.0
SEEN = SUBJECTS < 5


def epochs(signals, names=NAMES, kinds="eeg", bads=()):
    """Trials in microvolts as MNE keeps them, in volts."""
    info = mne.create_info(names, SFREQ, kinds)
    info["bads"] = list(bads)
    events = np.column_stack(
        [np.arange(len(signals)) * 1000, np.zeros(len(signals), int), np.ones(len(signals), int)]
    )
    return mne.EpochsArray(np.asarray(signals) * 1e-6, info, events, verbose="error")


def fit(trials, **options):
    clf = bc.AutoTransferClassifier(
        candidates=["riemann", "power"], max_trainings=6, device="cpu", verbose=0, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clf.fit(trials, Y[SEEN], subjects=SUBJECTS[SEEN])


def with_others(signals, classes):
    """Trials with a trigger that tells the class, an eye and a bad channel among them."""
    trigger = np.repeat(classes[:, None, None] + 1.0, signals.shape[2], axis=2)
    eye = np.full_like(trigger, 50.0) + signals[:, :1]
    return epochs(
        np.concatenate([trigger, signals, eye, 99 * signals[:, :1]], axis=1),
        ["STI", *NAMES, "EOG", "P9"],
        ["stim", *["eeg"] * 4, "eog", "eeg"],
        bads=["P9"],
    )


def test_triggers_eyes_and_bad_channels_are_not_decoded():
    others, plain = with_others(X[SEEN], Y[SEEN]), epochs(X[SEEN])
    assert signal_names(others) == NAMES
    np.testing.assert_allclose(read_signals(others)[0], read_signals(plain)[0], rtol=1e-6)
    clf, pure = fit(others), fit(plain)
    assert clf.input_.ch_names == NAMES and clf.heldout_.scores == pure.heldout_.scores
    new, code = X[~SEEN], Y[~SEEN]
    found = clf.adapt(with_others(new, code)).predict_proba(with_others(new, 1 - code))
    np.testing.assert_allclose(found, pure.adapt(epochs(new)).predict_proba(epochs(new)), atol=1e-6)


def test_the_kind_that_most_channels_are_of_is_decoded():
    assert signal_names(epochs(X, kinds=["emg", "eeg", "emg", "emg"])) == ["Fz", "Pz", "Oz"]
    with pytest.raises(ValueError, match="X has no good channel of eeg, ecog, emg, seeg, but misc"):
        read_signals(epochs(X, kinds="misc"))
    with pytest.raises(ValueError, match="X has no good channel"):
        read_signals(epochs(X, bads=NAMES))


def test_other_units_are_told_and_the_same_are_not():
    clf, new = fit(epochs(X[SEEN])), X[~SEEN]
    with pytest.warns(UserWarning, match="are these volts and microvolts"):
        clf.adapt(epochs(new).get_data())  # volts, as MNE returns them
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        person = clf.adapt(5 * new)
        person.predict(new[:1] / 5)
        person.predict(np.zeros_like(new))  # silence has no unit


def test_an_older_folder_without_an_amplitude_is_read(tmp_path):
    clf = fit(epochs(X[SEEN]))
    clf.save(tmp_path / "decoder")
    again = bc.AutoTransferClassifier.load(tmp_path / "decoder")
    assert again.input_ == clf.input_ and clf.input_.amplitude > 0
    again.input_.amplitude = None
    again.adapt(X[~SEEN] * 1e-6)


@pytest.mark.parametrize(
    "trials, options, message",
    [
        (X[SEEN], {"sfreq": -1}, "sfreq=-1 must be"),
        (X[SEEN], {"sfreq": "64"}, "sfreq='64' must be"),
        (epochs(X[SEEN]), {"sfreq": 128.0}, "sfreq=128, but X has 64 samples per second"),
        (epochs(X[SEEN]), {"ch_names": list("abcd")}, "ch_names differ from those of X, Fz, Cz, Pz, Oz"),
        (X[SEEN], {"partners": 1}, "partners=1 must be an integer of at least 2"),
        (X[SEEN], {"n_jobs": "2"}, "n_jobs='2' must be an integer"),
        (X[SEEN], {"n_jobs": 0}, "n_jobs=0 must be an integer"),
    ],
)
def test_options_that_are_refused(trials, options, message):
    with pytest.raises(ValueError, match=message):
        fit(trials, **options)
