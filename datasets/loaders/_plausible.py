"""Refuse what cannot be a recording, and warn of what can be one but is probably a mistake."""

import math
import warnings

import numpy as np

# A sampling rate beyond these belongs to no recording of people, and a window so far from its event to none either.
_RATES = (0.1, 1e5)  # Hz
_FARTHEST = 600.0  # seconds
_LONGEST_NAME = 100  # characters
_LARGEST_SUBJECT = 2**31 - 1


def check_number(value, name, path):
    """Return one number that a file should hold."""
    value = np.asarray(value)
    if value.size != 1 or value.dtype.kind not in "iuf":
        raise ValueError(
            f"{path}: {name} has shape {value.shape} and type {value.dtype}; expected one number."
        )
    return float(value.item())


def check_timing(sfreq, tmin, path):
    """Raise unless sampling rate and window can be those of a recording."""
    low, high = _RATES
    if not low <= sfreq <= high:
        raise ValueError(
            f"{path}: sfreq={sfreq} Hz; expected a positive sampling rate, between {low} and {high:.0f} Hz."
        )
    if not (math.isfinite(tmin) and abs(tmin) <= _FARTHEST):
        raise ValueError(
            f"{path}: tmin={tmin} s; expected the time of the first sample after its event, at most {_FARTHEST:.0f} s "
            "before or after it."
        )


def check_subject_number(subject, path):
    """Raise unless a number is small enough for MOABB's tables."""
    if subject > _LARGEST_SUBJECT:
        raise ValueError(
            f"{path}: subject number {subject} is too large; number the subjects from 1 on, at most "
            f"{_LARGEST_SUBJECT}."
        )


def check_class_names(names, path):
    """Refuse empty and endless class names; warn of names that differ in case or spaces only."""
    for name in names:
        if not name.strip() or len(name) > _LONGEST_NAME:
            shown = repr(name if len(name) <= 20 else name[:20] + "...")
            raise ValueError(
                f"{path}: label_names contains {shown}, of {len(name)} characters; expected 1 to {_LONGEST_NAME}."
            )
    alike = {}
    for name in names:
        alike.setdefault(name.strip().casefold(), []).append(name)
    for group in alike.values():
        if len(group) > 1:
            _warn(
                f"{path}: the classes {', '.join(map(repr, group))} differ in case or spaces only and are decoded as "
                "different classes; if they are one, give them one name."
            )


def check_variation(X, ch_names, path):
    """Refuse trials in which nothing varies; warn of channels that are constant in all trials."""
    constant = (X[:, :, :1] == X).all(axis=(0, 2))
    if constant.all():
        raise ValueError(f"{path}: all channels are constant in all trials; there is nothing to decode.")
    if constant.any():
        names = [str(ch_names[k]) for k in np.flatnonzero(constant)]
        _warn(f"{path}: the channels {', '.join(names[:8])} are constant in all trials and tell nothing.")


def check_trial_counts(counts):
    """Warn of subjects with a single trial."""
    single = [str(subject) for subject, count in counts.items() if count == 1]
    if single:
        _warn(
            f"The subjects {', '.join(single[:8])} have one trial only: their scores are 0 or 1, and nothing can be "
            "learnt about them as people."
        )


def _warn(text):
    warnings.warn(text, UserWarning, stacklevel=4)
