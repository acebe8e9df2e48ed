"""Build :class:`mne.io.RawArray` objects that MOABB can epoch to the sample."""

import mne
import numpy as np

# MNE drops epochs that touch these annotations, so a window wider than the recorded epoch yields no made-up samples.
_PADDING = "BAD_padding"


def standard_montage():
    """Return MNE's 10-05 montage, under the name it has in the installed release."""
    names = mne.channels.get_builtin_montages()
    return mne.channels.make_standard_montage("colin27_1005" if "colin27_1005" in names else "standard_1005")


def make_info(ch_names, sfreq, ch_types):
    """Return the measurement info, with standard 10-05 positions for the EEG channels that have one."""
    info = mne.create_info(ch_names, sfreq, ch_types, verbose="ERROR")
    if "eeg" in info.get_channel_types():
        info.set_montage(standard_montage(), on_missing="ignore", match_case=False, verbose="ERROR")
    return info


def raw_from_signal(data, info, onsets, labels, duration):
    """Return a continuous recording with one annotation per trial."""
    # MOABB sets dates in the info of every session, so each needs a copy.
    raw = mne.io.RawArray(np.asarray(data, np.float64), info, copy="info", verbose="ERROR")
    onsets = np.asarray(onsets) / info["sfreq"]
    raw.set_annotations(mne.Annotations(onsets, duration, [str(name) for name in labels]), verbose="ERROR")
    return raw


def raw_from_epochs(X, labels, info, tmin=0.0):
    """Return epochs one after the other, padded so that filters do not carry one into the next.

    Notes
    -----
    Each epoch is continued at both ends by its odd reflection, up to half a second, which is what MNE does at
    the ends of a recording. One second of silence closes the recording, because MOABB's EDF cache cuts an
    incomplete last second off.
    """
    X = np.asarray(X)
    n_trials, n_chans, n_times = X.shape
    sfreq, shift = info["sfreq"], round(tmin * info["sfreq"])
    pad = max(min(n_times - 1, round(sfreq / 2)), 2)
    lead = max(0, shift - pad)
    starts = lead + pad + np.arange(n_trials) * (n_times + 2 * pad)
    data = np.zeros((n_chans, starts[-1] + n_times + pad + int(np.ceil(sfreq))))
    for start, trial in zip(starts, X):
        padded = np.pad(trial, ((0, 0), (pad, pad)), mode="reflect", reflect_type="odd")
        data[:, start - pad : start + n_times + pad] = padded
    raw = raw_from_signal(data, info, starts - shift, labels, n_times / sfreq)
    # Annotations keep one sample away from the epochs, because times are rounded to samples in floating point.
    onsets, ends = np.r_[0, starts + n_times + 1], np.r_[starts, data.shape[1]] - 1
    padding = mne.Annotations(onsets / sfreq, (ends - onsets) / sfreq, _PADDING)
    raw.set_annotations(raw.annotations + padding, verbose="ERROR")
    return raw
