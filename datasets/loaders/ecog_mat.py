"""Read the .mat files of the faces_basic release, MATLAB 5 or 7.3, and find the pictures in them."""

from pathlib import Path

import h5py
import numpy as np
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from braindecode_censor.datasets._check import check_samples

VARIABLES = ("data", "stim", "srate")
HOUSES, FACES, BLANK = range(1, 51), range(51, 101), 101  # values of stim
TRIAL = 400  # samples a picture is shown
# Three samples each at which the amplifier of subject ha mistook the picture (0-based, Miller's own
# correction).
GLITCHES = {"ha": ((85479, 85482), (165879, 165882))}


def read_mat(path, variables=VARIABLES):
    """Read variables of a .mat file of either format."""
    path = Path(path)
    try:
        found = _read_v73(path, variables) if h5py.is_hdf5(path) else loadmat(path, variable_names=variables)
    except (
        ValueError,
        TypeError,
        OSError,
        EOFError,
        KeyError,
        IndexError,
        NotImplementedError,
        MatReadError,
    ) as error:
        raise ValueError(
            f"{path} cannot be read ({error}): truncated, or not a .mat file. Unpack it again."
        ) from error
    except Exception as error:  # zlib.error and others that scipy passes through
        raise ValueError(f"{path} is damaged ({error!r}). Unpack it again.") from error
    missing = [name for name in variables if name not in found]
    if missing:
        raise ValueError(f"{path} has no variable {', '.join(missing)}; expected {', '.join(variables)}.")
    return {name: np.asarray(found[name]) for name in variables}


def _read_v73(path, variables):
    """Return the variables of an HDF5 file, turned back, since MATLAB stores columns first."""
    with h5py.File(path) as file:
        return {name: file[name][()].T for name in variables if name in file}


def read_recording(path, subject):
    """Read one subject's file."""
    found = read_mat(path)
    data, stim = found["data"], found["stim"]
    if data.ndim != 2:
        raise ValueError(f"{path}: data has shape {data.shape}; expected (samples, channels).")
    if stim.size != len(data):
        raise ValueError(f"{path}: stim has {stim.size} samples, data {len(data)}; they must agree.")
    if found["srate"].size != 1 or found["srate"].dtype.kind not in "iuf":
        raise ValueError(f"{path}: srate is {found['srate']!r}; expected one number, 1000.")
    check_samples(
        data.T, f"{path}: data", [f"column {k}" for k in range(data.shape[1])], ("channel", "sample")
    )
    stim = _check_codes(path, stim.ravel())
    for start, stop in GLITCHES.get(subject, ()):
        stim[start:stop] = 0
    return data.T, stim, float(found["srate"].ravel()[0])


def _check_codes(path, stim):
    """Return stim as integers if every value is a code of the release."""
    if stim.dtype.kind not in "iuf":
        raise ValueError(f"{path}: stim has dtype {stim.dtype}; expected integers 0 to {BLANK}.")
    wrong = np.flatnonzero((stim < 0) | (stim > BLANK) | (stim != np.round(stim)))
    if len(wrong):
        raise ValueError(
            f"{path}: stim is {stim[wrong[0]]} at sample {wrong[0]}; expected integers 0 to {BLANK}."
        )
    return stim.astype(np.int64)


def find_trials(stim):
    """Return where pictures begin, how long they stay and which they are."""
    stim = np.asarray(stim, np.int64)
    change = np.flatnonzero(np.diff(np.r_[-1, stim]))
    lengths, codes = np.diff(np.r_[change, len(stim)]), stim[change]
    picture = (codes >= HOUSES[0]) & (codes <= FACES[-1])
    return change[picture], lengths[picture], codes[picture]


def check_trials(path, onsets, lengths, codes, n_trials):
    """Raise unless there are the trials the release is known to hold."""
    odd = np.flatnonzero(np.abs(lengths - TRIAL) > TRIAL // 10)
    if len(odd):
        raise ValueError(
            f"{path}: stim shows picture {codes[odd[0]]} for {lengths[odd[0]]} samples from sample "
            f"{onsets[odd[0]]}; "
            f"expected {TRIAL}. A glitch? strict=False keeps such trials out of the check."
        )
    faces = int(np.sum(codes >= FACES[0]))
    if len(codes) != n_trials or 2 * faces != n_trials:
        raise ValueError(
            f"{path}: stim shows {len(codes) - faces} houses and {faces} faces; expected {n_trials // 2} of "
            "each. "
            "Truncated? strict=False accepts other numbers."
        )
