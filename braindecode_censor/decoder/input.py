"""What a decoder takes: trials of the same channels and length, put into the order it was fitted with."""

import warnings
from dataclasses import dataclass

import mne
import numpy as np
from braindecode.datasets import BaseConcatDataset

from braindecode_censor._check import check_positive
from braindecode_censor.search.folds import check_enough
from braindecode_censor.trials.dataset import check_labels, check_sense, read_signals, signal_names
from braindecode_censor.trials.subject_labels import find_labels

__all__ = ["InputFormat", "check_people", "describe_input", "read_input"]

_OTHER_UNITS = 100  # amplitudes of two people differ by less
_LOOK = 200  # trials from which the amplitude is taken


@dataclass
class InputFormat:
    """Size and names of the signals."""

    n_chans: int
    n_times: int
    ch_names: list | None = None
    sfreq: float | None = None
    amplitude: float | None = None


def describe_input(X, signals, sfreq=None, ch_names=None):
    """Return the format of trials."""
    found, rate = _names_and_rate(X)
    if sfreq is not None:
        check_positive("sfreq", sfreq)
    if sfreq is not None and rate is not None and not np.isclose(sfreq, rate):
        raise ValueError(
            f"sfreq={sfreq:g}, but X has {rate:g} samples per second: leave sfreq out, X knows it."
        )
    if ch_names is not None and found is not None and list(ch_names) != found:
        raise ValueError(
            f"ch_names differ from those of X, {', '.join(found[:8])}: leave them out, X knows them."
        )
    names = list(ch_names) if ch_names is not None else found
    if names is not None and len(names) != signals.shape[1]:
        raise ValueError(f"ch_names has {len(names)} names and X has {signals.shape[1]} channels.")
    if names is not None and len(set(names)) < len(names):
        raise ValueError("ch_names has a name twice: channels are told apart by their names.")
    rate = sfreq if sfreq is not None else rate
    return InputFormat(*signals.shape[1:], names, rate, _typical_amplitude(signals))


def _typical_amplitude(signals):
    """Return the median standard deviation of some trials, spread over all of them; None for silence."""
    some = np.asarray(signals[:: -(-len(signals) // _LOOK)], dtype=float)
    return float(np.median(some.std(axis=(1, 2)))) or None


def _names_and_rate(X):
    info = getattr(X, "info", None)
    if isinstance(X, BaseConcatDataset):
        first = X.datasets[0]
        info = getattr(getattr(first, "windows", None) or getattr(first, "raw", None), "info", None)
    if not isinstance(info, mne.Info):
        return None, None
    names = signal_names(X) if isinstance(X, mne.BaseEpochs) else list(info["ch_names"])
    return names, float(info["sfreq"])


def read_input(X, format):
    """Return the signals of trials in the order of the decoder's channels."""
    signals, _ = read_signals(X)
    names, sfreq = _names_and_rate(X)
    if names is not None and format.ch_names is not None:
        missing = [name for name in format.ch_names if name not in names]
        if missing:
            raise ValueError(
                f"X lacks {len(missing)} of the decoder's {format.n_chans} channels: {', '.join(missing[:8])}. "
                "Record or interpolate them, or fit a decoder without them."
            )
        signals = np.asarray(signals)[:, [names.index(name) for name in format.ch_names]]
    if signals.shape[1] != format.n_chans:
        raise ValueError(
            f"X has {signals.shape[1]} channels, the decoder was fitted with {format.n_chans}: pass the same "
            "channels in the same order, or Epochs with their names."
        )
    if signals.shape[2] != format.n_times:
        raise ValueError(
            f"X has {signals.shape[2]} samples per trial, the decoder was fitted with {format.n_times}."
        )
    if sfreq is not None and format.sfreq is not None and abs(sfreq - format.sfreq) > 1e-6 * format.sfreq:
        raise ValueError(
            f"X has {sfreq:g} samples per second, the decoder was fitted with {format.sfreq:g}: resample."
        )
    _warn_of_other_units(_typical_amplitude(signals), format.amplitude)
    return signals


def _warn_of_other_units(found, expected):
    if not found or not expected or 1 / _OTHER_UNITS < found / expected < _OTHER_UNITS:
        return
    warnings.warn(
        f"X has a typical amplitude of {found:.3g}, the trials the decoder was fitted with had {expected:.3g}: are "
        "these volts and microvolts? Epochs, and files read by the shell, are in microvolts; arrays are taken as they "
        "are.",
        stacklevel=4,
    )


def check_people(X, signals, targets, y, subjects):
    """Return classes and people of all trials, raising for what no decoder can be made of."""
    n_trials = len(signals)
    if y is None and isinstance(X, mne.BaseEpochs):
        y = X.events[:, 2]
    y = check_labels("y", targets if y is None else y, n_trials, "pass one class per trial.")
    subjects = check_labels(
        "subjects",
        find_labels(X) if subjects is None else subjects,
        n_trials,
        "the search leaves people out, so it must know whose trial each one is. Call fit(X, y, subjects=labels).",
    )
    classes = np.unique(y)
    check_enough(len(np.unique(subjects)))
    if len(classes) < 2:
        raise ValueError(f"y holds one class, {classes.tolist()}: a classifier needs at least two.")
    check_sense(signals, classes)
    for person in np.unique(subjects):
        own = np.unique(y[subjects == person])
        if len(own) < 2:
            raise ValueError(
                f"subject {person!s} has trials of one class only, {own.tolist()}: nothing can be told of how well "
                "this person is decoded. Leave the person out or add trials of another class."
            )
    for k in classes:
        owners = np.unique(subjects[y == k])
        if len(owners) < 2:
            raise ValueError(
                f"class {k!s} occurs in one person only, subject {owners[0]!s}: whoever is decoded must not be "
                "needed to learn it. Leave the class out or record it in others."
            )
    return y, subjects
