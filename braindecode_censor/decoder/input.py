"""The input of a decoder: trials with the channels, in the order and of the length that it was fitted with."""

import json
import warnings
from dataclasses import dataclass

import mne
import numpy as np
from braindecode.datasets import BaseConcatDataset

from braindecode_censor._check import check_positive
from braindecode_censor.storage.schema import Positive, Size
from braindecode_censor.trials.dataset import check_labels, check_sense, read_signals, signal_names
from braindecode_censor.trials.subject_labels import find_labels

__all__ = ["InputFormat", "check_subjects", "describe_input", "match_channels", "read_input"]

_OTHER_UNITS = 100  # amplitudes of two subjects differ by less
_N_TRIALS = 200  # from which the amplitude is taken


@dataclass
class InputFormat:
    """Size and names of the signals."""

    n_chans: Size
    n_times: Size
    ch_names: list[str] | None = None
    sfreq: Positive | None = None
    amplitude: Positive | None = None


def describe_input(X, signals, sfreq=None, ch_names=None):
    """Return the format of trials."""
    own_names, rate = _names_and_rate(X)
    if sfreq is not None:
        check_positive("sfreq", sfreq)
    if sfreq is not None and rate is not None and not np.isclose(sfreq, rate):
        raise ValueError(
            f"sfreq={sfreq:g}, but X has {rate:g} samples per second: leave sfreq out, X has it."
        )
    if ch_names is not None and own_names is not None and list(ch_names) != own_names:
        raise ValueError(
            f"ch_names differ from those of X, {', '.join(own_names[:8])}: leave them out, X has them."
        )
    names = list(ch_names) if ch_names is not None else own_names
    if names is not None and len(names) != signals.shape[1]:
        raise ValueError(f"ch_names has {len(names)} names and X has {signals.shape[1]} channels.")
    if not all(isinstance(name, str) for name in names or ()):
        raise ValueError(f"ch_names={names[:8]!r} must be words.")
    if names is not None and len(set(names)) < len(names):
        raise ValueError("ch_names has a name twice: channels need different names.")
    if names is not None:
        _check_storable("ch_names", names)
    rate = float(sfreq) if sfreq is not None else rate
    return InputFormat(*signals.shape[1:], names, rate, _typical_amplitude(signals))


def _typical_amplitude(signals):
    """Return the median standard deviation of some trials, None for silence."""
    some = np.asarray(signals[:: -(-len(signals) // _N_TRIALS)], dtype=float)
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


def read_input(X, input_format):
    """Return the signals of trials in the order of the decoder's channels."""
    signals, _ = read_signals(X)
    channels = match_channels("X", *_names_and_rate(X), input_format)
    if channels is not None:
        signals = np.asarray(signals)[:, channels]
    if signals.shape[1] != input_format.n_chans:
        raise ValueError(
            f"X has {signals.shape[1]} channels, the decoder was fitted with {input_format.n_chans}: pass the same "
            "channels in the same order, or Epochs with their names."
        )
    if signals.shape[2] != input_format.n_times:
        raise ValueError(
            f"X has {signals.shape[2]} samples per trial, the decoder was fitted with {input_format.n_times}."
        )
    _warn_of_other_units(_typical_amplitude(signals), input_format.amplitude)
    return signals


def match_channels(owner, names, sfreq, input_format):
    """Return the positions of the decoder's channels, None without names; errors call the trials `owner`."""
    if sfreq is not None and input_format.sfreq is not None and not np.isclose(sfreq, input_format.sfreq):
        raise ValueError(
            f"{owner} has {sfreq:g} samples per second, the decoder was fitted with {input_format.sfreq:g}: resample."
        )
    if names is None or input_format.ch_names is None:
        return None
    missing = [name for name in input_format.ch_names if name not in names]
    if missing:
        raise ValueError(
            f"{owner} lacks {len(missing)} of the decoder's {input_format.n_chans} channels: "
            f"{', '.join(missing[:8])}. Record or interpolate them, or fit a decoder without them."
        )
    return [names.index(name) for name in input_format.ch_names]


def _warn_of_other_units(amplitude, expected):
    if not amplitude or not expected or 1 / _OTHER_UNITS < amplitude / expected < _OTHER_UNITS:
        return
    warnings.warn(
        f"X has a typical amplitude of {amplitude:.3g}, the trials the decoder was fitted with had {expected:.3g}: are "
        "these volts and microvolts? Epochs, and files read by the shell, are in microvolts; arrays are not converted.",
        stacklevel=4,
    )


def _check_storable(argument, labels):
    """Raise for labels that a saved decoder would not give back as they are."""
    unique = np.unique(labels)
    try:
        again = np.asarray(json.loads(json.dumps(unique.tolist(), ensure_ascii=False).encode())).tolist()
    except (TypeError, ValueError):
        again = None
    if unique.dtype.kind in "mM" or repr(again) != repr(unique.tolist()):
        remedy = f"make them words or numbers, for instance by list(map(str, {argument}))"
        raise ValueError(
            f"{argument} has {unique.tolist()[0]!r}, which a saved decoder cannot hold: {remedy}."
        )


def check_subjects(X, signals, targets, y, subjects):
    """Return labels and subjects of all trials; raise where a held-out score would be impossible."""
    from braindecode_censor.search.folds import (
        check_enough_subjects,  # A decoder that is loaded needs no search.
    )

    n_trials = len(signals)
    if y is None and isinstance(X, mne.BaseEpochs):
        y = X.events[:, 2]
    y = check_labels("y", targets if y is None else y, n_trials, "pass one class per trial.")
    subjects = check_labels(
        "subjects",
        find_labels(X) if subjects is None else subjects,
        n_trials,
        "the search holds subjects out, so it needs the subject of each trial. Call fit(X, y, subjects=labels).",
    )
    _check_storable("y", y)
    _check_storable("subjects", subjects)
    classes = np.unique(y)
    check_enough_subjects(len(np.unique(subjects)))
    if len(classes) < 2:
        raise ValueError(f"y holds one class, {classes.tolist()}: a classifier needs at least two.")
    check_sense(signals, classes)
    for subject in np.unique(subjects):
        subject_classes = np.unique(y[subjects == subject])
        if len(subject_classes) < 2:
            raise ValueError(
                f"Subject {subject!s} has trials of one class only ({subject_classes.tolist()}). A held-out score "
                "needs at least two classes: remove the subject or add trials."
            )
    for k in classes.tolist():
        owners = np.unique(subjects[y == k])
        if len(owners) < 2:
            raise ValueError(
                f"Class {k!r} occurs only in subject {owners[0]!s}. Every class must occur in at least two subjects, "
                "since subjects are held out in turn."
            )
    return y, subjects
