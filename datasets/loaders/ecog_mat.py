"""Read the .mat files of the faces_basic release, MATLAB 5 or 7.3, and find the pictures in them."""

from pathlib import Path

import h5py
import numpy as np
from scipy.io import loadmat

from braindecode_censor.datasets._check import check_number, check_samples, require

_VARIABLES = ("data", "stim", "srate")
HOUSES, FACES, BLANK = range(1, 51), range(51, 101), 101  # values of stim
TRIAL = 400  # samples a picture is shown
# Samples at which the amplifier of subject ha recorded another picture (0-based, Miller's own correction).
_GLITCHES = {"ha": ((85479, 85482), (165879, 165882))}


def read_mat(path, variables=_VARIABLES):
    """Read variables of a .mat file of either format."""
    path = Path(path)
    try:
        read = _read_v73 if h5py.is_hdf5(path) else loadmat
        content = read(path, variable_names=variables)
    except Exception as error:  # SciPy and h5py raise many types of errors for a damaged file
        raise ValueError(f"{path} cannot be read ({error!r}): truncated or damaged?") from error
    missing = ", ".join(name for name in variables if name not in content)
    require(not missing, f"{path} has no variable {missing}; expected {', '.join(variables)}.")
    return [np.asarray(content[name]) for name in variables]


def _read_v73(path, variable_names):
    """Return variables of an HDF5 file, transposed, since MATLAB stores columns first."""
    with h5py.File(path) as file:
        return {name: file[name][()].T for name in variable_names if name in file}


def read_recording(path, subject):
    """Return signals of shape (n_chans, n_samples), picture codes of shape (n_samples,) and sampling rate."""
    data, stim, srate = read_mat(path)
    require(data.ndim == 2, f"{path}: data has shape {data.shape}; expected (samples, channels).")
    require(stim.size == len(data), f"{path}: stim has {stim.size} samples, data {len(data)}.")
    ch_names = [f"column {k}" for k in range(data.shape[1])]
    check_samples(data.T, f"{path}: data", ch_names, ("channel", "sample"))
    stim = stim.ravel()
    require(stim.dtype.kind in "iuf", f"{path}: stim has dtype {stim.dtype}; expected integers 0 to {BLANK}.")
    wrong = np.flatnonzero((stim < 0) | (stim > BLANK) | (stim != np.round(stim)))
    if len(wrong):
        raise ValueError(f"{path}: stim is {stim[wrong[0]]} at sample {wrong[0]}; expected 0 to {BLANK}.")
    stim = stim.astype(np.int64)
    for start, stop in _GLITCHES.get(subject, ()):
        stim[start:stop] = 0
    return data.T, stim, check_number(srate, "srate", path)


def find_trials(stim):
    """Return onset, length and code of every picture, each of shape (n_trials,)."""
    stim = np.asarray(stim, np.int64)
    change = np.flatnonzero(np.diff(np.r_[-1, stim]))
    lengths, codes = np.diff(np.r_[change, len(stim)]), stim[change]
    is_picture = (codes >= HOUSES[0]) & (codes <= FACES[-1])
    return change[is_picture], lengths[is_picture], codes[is_picture]


def check_trials(path, onsets, lengths, codes, n_trials):
    """Raise unless the file holds the release's trials."""
    odd = np.flatnonzero(np.abs(lengths - TRIAL) > TRIAL // 10)
    if len(odd):
        raise ValueError(
            f"{path}: stim shows picture {codes[odd[0]]} for {lengths[odd[0]]} samples from sample {onsets[odd[0]]}; "
            f"expected {TRIAL}. A glitch? strict=False skips this check."
        )
    n_faces = int(np.sum(codes >= FACES[0]))
    n_houses = len(codes) - n_faces
    if not n_faces == n_houses == n_trials // 2:
        raise ValueError(
            f"{path}: stim shows {n_houses} houses and {n_faces} faces; expected {n_trials // 2} of each. Truncated? "
            "strict=False accepts other numbers."
        )
