"""Subjects with different caps: common channels in a fit, interpolated ones afterwards."""

import warnings
from functools import lru_cache

import mne
import numpy as np

from braindecode_censor.trials.dataset import signal_names

__all__ = ["arrange_channels", "join_caps"]

_FEWEST = 4  # channels, to decode by or to interpolate from
_MONTAGES = (
    "colin27_1005",
    "standard_1005",
)  # The 10-20 and 10-10 systems are in them; MNE 1.13 renames the second.


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


def arrange_channels(owner, signals, names, wanted):
    """Return signals with the wanted channels in their order, missing ones interpolated."""
    missing = tuple(name for name in wanted if name not in names)
    present = [name for name in wanted if name in names]
    signals = np.asarray(signals)[:, [names.index(name) for name in present]]
    if not missing:
        return signals
    weights = _spline_weights(tuple(present), missing, owner)
    warnings.warn(
        f"{owner} lacks {len(missing)} of the decoder's {len(wanted)} channels, which are interpolated: "
        f"{', '.join(missing)}. The decoder's expected score was not measured for this cap.",
        stacklevel=4,
    )
    full = np.empty((len(signals), len(wanted), signals.shape[2]), signals.dtype)
    full[:, [wanted.index(name) for name in present]] = signals
    full[:, [wanted.index(name) for name in missing]] = weights.astype(signals.dtype) @ signals
    return full


@lru_cache(maxsize=8)
def _spline_weights(present, missing, owner):
    """Return the weights of MNE's spherical splines, (n_missing, n_present)."""
    builtin = mne.channels.get_builtin_montages()
    montage = mne.channels.make_standard_montage(next(name for name in _MONTAGES if name in builtin))
    known = {name.lower() for name in montage.ch_names}
    unknown = [name for name in (*missing, *present) if name.lower() not in known]
    if unknown or len(present) < _FEWEST:
        reason = (
            f"positions of {', '.join(unknown[:8])} are not known" if unknown else "too few others are left"
        )
        raise ValueError(
            f"{owner} lacks {len(missing)} of the decoder's {len(missing) + len(present)} channels: "
            f"{', '.join(missing[:8])}. They cannot be interpolated, because {reason}. Record them, or fit a decoder "
            "without them."
        )
    info = mne.create_info([*present, *missing], 1.0, "eeg")
    units = np.eye(len(present) + len(missing), len(present))  # the response to each channel alone
    evoked = mne.EvokedArray(units, info, verbose="error").set_montage(montage, match_case=False)
    evoked.info["bads"] = list(missing)
    return evoked.interpolate_bads(verbose="error").data[len(present) :]
