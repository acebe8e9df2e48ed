"""Subjects with different caps: common channels in a fit, afterwards missing ones estimated from the others."""

import warnings

import mne
import numpy as np

from braindecode_censor.trials.dataset import signal_names

__all__ = ["arrange_channels", "channel_covariance", "find_channels", "join_caps"]

_FEWEST = 4  # channels, to decode by or to estimate others from
_RIDGE = 1e-3  # of the mean variance
_LEAST = 0.1  # of their variance, to estimate channels
_ROUNDING = 1e-6
_TRIALS = 100  # at a time


def join_caps(X):
    """Return several Epochs as one with the channels that all of them have; other input as it is."""
    if not (isinstance(X, (list, tuple)) and X and all(isinstance(epochs, mne.BaseEpochs) for epochs in X)):
        return X
    names = [signal_names(epochs) for epochs in X]
    common = [name for name in names[0] if all(name in other for other in names)]
    n_all = len(set().union(*names))
    if len(common) < min(n_all, _FEWEST):
        raise ValueError(
            f"X: {len(X)} caps have {len(common)} channels in common ({', '.join(common) or 'none'}), but at least "
            f"{_FEWEST} are needed: leave out the subjects with the fewest, or give equal channels equal names."
        )
    if len(common) < n_all:
        warnings.warn(
            f"X: the caps have {len(common)} of {n_all} channels in common, and these are used: {', '.join(common)}.",
            stacklevel=3,
        )
    picked = [epochs.copy().load_data().pick(common) for epochs in X]
    for epochs in picked:
        epochs.info["bads"] = []  # No bad channel is common.
        epochs.reorder_channels(common)
    return mne.concatenate_epochs(picked, on_mismatch="ignore", verbose="error")


def channel_covariance(signals, subjects):
    """Return the mean over subjects of their covariances of channels, each with trace 1."""
    total = 0
    for subject in np.unique(subjects):
        rows, covariance = np.flatnonzero(subjects == subject), 0
        for start in range(0, len(rows), _TRIALS):  # They may be in a file.
            X = signals[rows[start : start + _TRIALS]].astype(float)
            X -= X.mean(axis=-1, keepdims=True)
            covariance = covariance + (X @ np.swapaxes(X, 1, 2)).sum(axis=0)
        total = total + covariance / max(np.trace(covariance), np.finfo(float).tiny)
    return total / len(np.unique(subjects))


def arrange_channels(owner, signals, names, wanted, covariance):
    """Return signals with the wanted channels in their order, missing ones estimated."""
    positions, weights = find_channels(owner, names, wanted, covariance)
    signals = np.asarray(signals)[:, positions]
    return signals if weights is None else weights.astype(signals.dtype) @ signals


def find_channels(owner, names, wanted, covariance):
    """Return the positions of the wanted channels that are there, and weights of these if others are missing.

    Weights, (n_wanted, n_there), are regressions by the covariance. Splines would keep the potential of the scalp, but
    not what spatial filters take from it: small differences.
    """
    missing = [k for k, name in enumerate(wanted) if name not in names]
    present = [k for k, name in enumerate(wanted) if name in names]
    positions = [names.index(wanted[k]) for k in present]
    if not missing:
        return positions, None
    spelled = {name.lower(): name for name in names if name is not None}
    for name in (wanted[k] for k in missing):
        if other := spelled.get(name.lower()):
            raise ValueError(f"{owner} has a channel {other!r}, the decoder {name!r}: give it the same name.")
    words = f"{owner} lacks {len(missing)} of the decoder's {len(wanted)} channels"
    missing_names, weights, explained = ", ".join(wanted[k] for k in missing), None, 0.0
    if len(present) >= _FEWEST:
        weights, explained = _regress(covariance, missing, present)
    if explained < _LEAST:
        reason = f"the others tell {explained:.0%} of their variance"
        reason = "too few others are left" if weights is None else reason
        raise ValueError(
            f"{words}: {missing_names}. They cannot be estimated, because {reason}. Record them, or fit a decoder "
            "without them."
        )
    warnings.warn(
        f"{words}, which are estimated from the others ({explained:.0%} of their variance in training subjects): "
        f"{missing_names}. The decoder's expected score was not measured for this cap.",
        stacklevel=5,
    )
    return positions, weights


def _regress(covariance, missing, present):
    """Return the weights of present channels, (n_chans, n_present), and the fraction of the missing ones' variance."""
    n = len(present)
    # Channels with an average reference sum to zero, and so do those that are left of them.
    is_average = covariance.sum() <= _ROUNDING * len(covariance) * np.trace(covariance)
    centring = np.eye(n) - is_average / n
    across = covariance[np.ix_(missing, present)] @ centring
    ridge = _RIDGE * np.trace(covariance) / len(covariance) * np.eye(n)
    within = centring @ covariance[np.ix_(present, present)] @ centring + ridge
    weights = np.zeros((len(covariance), n))
    weights[missing] = np.linalg.solve(within, across.T).T @ centring
    weights[present] = centring - is_average * weights[missing].sum(axis=0) / n
    variance = covariance[missing, missing].sum()
    return weights, (weights[missing] * across).sum() / variance if variance > 0 else 1.0
