"""Warnings of trials that are valid and yet probably wrong: flat channels, constant trials, other units, one class."""

import warnings

import numpy as np

from braindecode_censor.trials.affine import is_constant
from braindecode_censor.trials.stored import StoredSignals

__all__ = ["TrialsWarning", "check_trials", "typical_amplitude", "warn_of_one_class"]

_OTHER_UNITS = 100  # amplitudes of two subjects differ by less
_N_TRIALS = 200  # of a block or a file, from which the amplitude is taken
_N_STORED = 64  # of a file
_LARGEST_CLASS = 0.85  # of a subject's trials; an oddball block has fewer


class TrialsWarning(UserWarning):
    """Trials are valid and yet probably wrong."""


def check_trials(signals, y=None, subjects=None, names=None, amplitude=None):
    """Warn of trials that are probably wrong, by subject and channel; `amplitude` is that of training subjects."""
    if isinstance(signals, StoredSignals):  # Of a file some trials are read.
        some = np.arange(0, len(signals), -(-len(signals) // _N_STORED))
        signals = signals[some]
        y, subjects = (None if labels is None else labels[some] for labels in (y, subjects))
    silent, blocks = _find_silent(signals), {"X": np.arange(len(signals))}
    if subjects is not None:
        blocks = {f"subject {s!s}": np.flatnonzero(subjects == s) for s in np.unique(subjects)}
    amplitudes = {owner: typical_amplitude(signals[idx]) for owner, idx in blocks.items()}
    if subjects is not None:
        amplitude = np.median([value for value in amplitudes.values() if value] or [0])
    problems = {}  # text -> owners, so that what is wrong with all subjects is said once
    for owner, idx in blocks.items():
        texts = [*_silence(silent[idx], names), *_other_units(amplitudes[owner], amplitude)]
        for text in [*texts, *([] if y is None else _one_class(y[idx]))]:
            problems.setdefault(text, []).append(owner)
    for text, owners in problems.items():
        warnings.warn(f"{', '.join(owners)}: {text}", TrialsWarning, stacklevel=4)


def warn_of_one_class(y):
    """Warn of labels in which one class prevails."""
    for text in _one_class(y):
        warnings.warn(f"y: {text}", TrialsWarning, stacklevel=4)


def typical_amplitude(signals):
    """Return the median over some trials of the channels' mean standard deviation, None for silence."""
    some = np.asarray(signals[:: -(-len(signals) // _N_TRIALS)], dtype=float)
    return float(np.median(some.std(axis=-1).mean(axis=-1))) or None


def _find_silent(signals):
    """Return which channels are constant in which trials, shape (n_trials, n_chans)."""
    few = np.asarray(signals[..., :: max(1, signals.shape[-1] // 4)], dtype=float)
    if signals.shape[-1] == 1:
        return np.zeros(few.shape[:2], dtype=bool)
    silent = np.ptp(few, axis=-1) <= 1e-6 * np.abs(few).max(axis=-1)
    candidates = signals[silent].astype(float)  # Only these are read in full.
    silent[silent] = is_constant(candidates.mean(axis=-1), candidates.std(axis=-1))
    return silent


def _silence(silent, names):
    flat, constant = np.flatnonzero(silent.all(axis=0)), silent.all(axis=1)
    if constant.all():
        yield "no signal, all channels are constant in all trials."
        return
    if len(flat):
        labels = ", ".join(str(k if names is None else names[k]) for k in flat[:8])
        yield (
            f"{len(flat)} flat channels, constant in all trials: {labels}. Mark them as bad in Epochs, or leave them "
            "out for all subjects."
        )
    if constant.any():
        yield f"{constant.sum()} constant trials of {len(constant)}, first trial {constant.argmax()}: drop them."


def _other_units(amplitude, expected):
    if amplitude and expected and not 1 / _OTHER_UNITS < amplitude / expected < _OTHER_UNITS:
        yield (
            f"a typical amplitude of {amplitude:.3g}, training subjects have {expected:.3g}: are these volts and "
            "microvolts? Epochs, and files read by the shell, are in microvolts; arrays are not converted."
        )


def _one_class(y):
    classes, counts = np.unique(y, return_counts=True)
    if counts.max() >= _LARGEST_CLASS * len(y) and len(y) > 1:
        yield (
            f"{counts.max()} of {len(y)} trials are of class {classes[counts.argmax()]!s}: the subject's statistics, "
            "which normalisation uses, are then those of one class."
        )
