"""The input of a decoder: trials with the channels, in the order and of the length that it was fitted with."""

from dataclasses import dataclass, field
from typing import Any

import mne
import numpy as np
from braindecode.datasets import BaseConcatDataset

from braindecode_censor._check import check_complete
from braindecode_censor.decoder.caps import arrange_channels
from braindecode_censor.decoder.preparation import Preparation
from braindecode_censor.storage.schema import Positive, Size
from braindecode_censor.trials.dataset import check_labels, check_sense, read_signals, signal_names
from braindecode_censor.trials.quality import check_trials, typical_amplitude
from braindecode_censor.trials.subject_labels import read_labels

__all__ = [
    "InputFormat",
    "check_subjects",
    "describe_input",
    "match_channels",
    "missing_channels",
    "read_input",
]


@dataclass
class InputFormat:
    """Size and names of the signals."""

    n_chans: Size
    n_times: Size
    ch_names: list[str] | None = None
    sfreq: Positive | None = None
    amplitude: Positive | None = None
    preparation: Preparation = field(default_factory=Preparation)
    # (n_chans, n_chans) of training subjects where channels have names; not in JSON.
    covariance: Any = field(default=None, compare=False, repr=False)


def describe_input(X, signals, sfreq=None, ch_names=None):
    """Return the format of trials."""
    own_names, rate = _names_and_rate(X)
    if sfreq is not None and rate is not None and not np.isclose(sfreq, rate):
        raise ValueError(
            f"sfreq={sfreq:g}, but X has {rate:g} samples per second: leave sfreq out, X has it."
        )
    if ch_names is not None and own_names is not None and list(ch_names) != own_names:
        raise ValueError(
            f"ch_names differ from those of X, {', '.join(own_names[:8])}: leave them out, X has them."
        )
    names = check_complete("ch_names", list(ch_names)).tolist() if ch_names is not None else own_names
    if names is not None and len(names) != signals.shape[1]:
        raise ValueError(f"ch_names has {len(names)} names and X has {signals.shape[1]} channels.")
    if not all(isinstance(name, str) for name in names or ()):
        raise ValueError(f"ch_names={names[:8]!r} must be words.")
    if names is not None and len(set(names)) < len(names):
        raise ValueError("ch_names has a name twice: channels need different names.")
    rate = float(sfreq) if sfreq is not None else rate
    return InputFormat(*signals.shape[1:], names, rate, typical_amplitude(signals))


def _names_and_rate(X):
    info = getattr(X, "info", None)
    if isinstance(X, BaseConcatDataset):
        first = X.datasets[0]
        info = getattr(getattr(first, "windows", None) or getattr(first, "raw", None), "info", None)
    if not isinstance(info, mne.Info):
        return None, None
    return signal_names(X) or list(info["ch_names"]), float(info["sfreq"])


def read_input(X, input_format):
    """Return the signals of trials in the order of the decoder's channels."""
    signals, _ = read_signals(X)
    signals = match_channels("X", signals, *_names_and_rate(X), input_format)
    if signals.shape[1] != input_format.n_chans:
        raise ValueError(
            f"X has {signals.shape[1]} channels, the decoder was fitted with {input_format.n_chans}: pass the same "
            "channels in the same order, or Epochs with their names."
        )
    if signals.shape[2] != input_format.n_times:
        raise ValueError(
            f"X has {signals.shape[2]} samples per trial, the decoder was fitted with {input_format.n_times}."
        )
    check_trials(signals, names=input_format.ch_names, amplitude=input_format.amplitude)
    return signals


def match_channels(owner, signals, names, sfreq, input_format):
    """Return signals with the decoder's channels, as they are without names; errors call the trials `owner`."""
    if sfreq is not None and input_format.sfreq is not None and not np.isclose(sfreq, input_format.sfreq):
        raise ValueError(
            f"{owner} has {sfreq:g} samples per second, the decoder was fitted with {input_format.sfreq:g}: resample."
        )
    if names is None or input_format.ch_names in (None, names):
        return signals
    return arrange_channels(owner, signals, names, input_format.ch_names, input_format.covariance)


def missing_channels(X, input_format):
    """Return the names of the decoder's channels that trials lack."""
    names = _names_and_rate(X)[0] or input_format.ch_names or []
    return [name for name in input_format.ch_names or () if name not in names]


def check_subjects(X, signals, targets, y, subjects):
    """Return labels and subjects of all trials; raise where a held-out score would be impossible."""
    # Here, because a decoder that is loaded needs no search.
    from braindecode_censor.search.folds import check_enough_subjects

    n_trials = len(signals)
    if y is None and isinstance(X, mne.BaseEpochs):
        y = X.events[:, 2]
    y = check_labels("y", targets if y is None else y, n_trials, "pass one class per trial.")
    remedy = "the search holds subjects out, so it needs the subject of each trial. Call fit(X, y, subjects=labels)."
    subjects = read_labels(X, subjects, n_trials, remedy)
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
