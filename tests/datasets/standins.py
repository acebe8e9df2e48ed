"""Write recordings in the releases' own formats, with signals that carry the label and the trial's number.

The first channel holds the number of the trial at its first sample, so an onset that is one sample off or a
label given to another trial shows; the other channels hold a response that depends on the class.
"""

import zipfile
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
from scipy.io import savemat

from braindecode_censor.datasets import save_subject
from braindecode_censor.datasets.errp import FEEDBACKS, TRAIN
from braindecode_censor.datasets.errp_csv import COLUMNS

STEP = 15  # rows between two feedbacks: epochs overlap, numbers of trials stay those of the release


def errp_table(labels, onsets, n_rows, seed):
    """Return one session as in the release: microvolts, 200 Hz, FeedBackEvent 1 at the onsets."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-30, 30, (n_rows, 57))
    for number, (onset, label) in enumerate(zip(onsets, labels), 1):
        values[onset, 0] = 1000 + number  # Fp1 says which feedback this is
        values[onset : onset + 10, 5:15] += 40 if label else -40
    table = pd.DataFrame(values, columns=COLUMNS[1:-1])
    table.insert(0, "Time", np.round(np.arange(n_rows) * 0.005, 3))
    table["FeedBackEvent"] = 0
    table.loc[onsets, "FeedBackEvent"] = 1
    return table


def write_errp(folder, subjects=TRAIN, feedbacks=FEEDBACKS, seed=0):
    """Write train/Data_SXX_SessYY.csv and TrainLabels.csv; return labels and onsets by (subject, session)."""
    rng = np.random.default_rng(seed)
    n = len(subjects) * sum(feedbacks)
    pool = rng.permutation(np.r_[np.ones(round(0.7077 * n), int), np.zeros(n - round(0.7077 * n), int)])
    truth, rows = {}, []
    (Path(folder) / "train").mkdir(exist_ok=True)
    for subject in subjects:
        for session, count in enumerate(feedbacks, 1):
            labels, pool = pool[:count], pool[count:]
            onsets = 37 + np.arange(count) * STEP + rng.integers(0, 5, count)
            table = errp_table(labels, onsets, onsets[-1] + 261, [seed, subject, session])
            table.to_csv(Path(folder, "train", f"Data_S{subject:02d}_Sess{session:02d}.csv"), index=False)
            truth[subject, session] = labels, onsets
            rows += [(f"S{subject:02d}_Sess{session:02d}_FB{k:03d}", y) for k, y in enumerate(labels, 1)]
    pd.DataFrame(rows, columns=["IdFeedBack", "Prediction"]).to_csv(
        Path(folder, "TrainLabels.csv"), index=False
    )
    return truth


def zip_errp(folder, target):
    with zipfile.ZipFile(Path(target, "train.zip"), "w", zipfile.ZIP_DEFLATED) as inner:
        for path in sorted(Path(folder, "train").glob("*.csv")):
            inner.write(path, path.name)
    with zipfile.ZipFile(Path(target, "inria-bci-challenge.zip"), "w") as outer:
        outer.write(Path(target, "train.zip"), "train.zip")
        outer.write(Path(folder, "TrainLabels.csv"), "TrainLabels.csv")
    Path(target, "train.zip").unlink()


def ecog_stim(name, seed=0):
    """Return stim of one subject at full length, and the onsets and codes in it."""
    rng = np.random.default_rng([seed, *name.encode()])
    half = 100 if name == "rr" else 150
    codes = rng.permutation(np.r_[np.arange(half) % 50 + 1, np.arange(half) % 50 + 51])
    k = np.arange(2 * half)
    onsets = 5379 + k // 100 * 80400 + k % 100 * 800 + rng.integers(0, 3, 2 * half)  # runs of 100 pictures
    stim = np.zeros(onsets[-1] + 1200, np.uint8)
    for start in range(5379, onsets[-1], 80400):
        stim[start : start + 80000] = 101
    for onset, code in zip(onsets, codes):
        stim[onset : onset + 400] = code
    return stim, onsets, codes


def ecog_data(stim, onsets, codes, n_chans, seed=0):
    """Return a signal whose channel 0 numbers the trials and whose other channels know faces from houses."""
    rng = np.random.default_rng(seed)
    data = np.tile(rng.integers(-100, 100, (1000, n_chans)), (len(stim) // 1000 + 1, 1))[: len(stim)]
    data = data.astype(np.float32)
    for number, (onset, code) in enumerate(zip(onsets, codes), 1):
        data[onset, 0] = 10000 + number
        data[onset + 100 : onset + 200, 1:9] += 100 if code > 50 else -100
    return data


def write_mat(path, variables, v73=False):
    """Write a .mat file, MATLAB 5 or 7.3 (HDF5 behind a 512-byte header, columns first)."""
    if not v73:
        savemat(path, variables, do_compression=False)
        return
    with h5py.File(path, "w", userblock_size=512) as file:
        for key, value in variables.items():
            file[key] = np.atleast_2d(value).T
    with open(path, "r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64, HDF5 schema 1.00 .".ljust(124))


def write_ecog(folder, names, v73=(), n_chans=None):
    """Write data/<s>/<s>_faceshouses.mat and locs; return onsets and codes by subject."""
    truth = {}
    for k, name in enumerate(names):
        stim, onsets, codes = ecog_stim(name)
        count = n_chans or 33 + k
        data = ecog_data(stim, onsets, codes, count, seed=k)
        if name == "ha":  # three samples of a picture that was not shown, between the runs
            for start in (85479, 165879):
                assert not stim[start - 50 : start + 50].any()
                stim[start : start + 3] = 77
        target = Path(folder, "faces_basic", "data", name)
        target.mkdir(parents=True)
        variables = {"data": data, "stim": stim[:, None], "srate": np.array([[1000]], np.uint16)}
        write_mat(target / f"{name}_faceshouses.mat", variables, name in v73)
        locs = Path(folder, "faces_basic", "locs")
        locs.mkdir(exist_ok=True)
        where = {"locs": np.arange(3 * count).reshape(-1, 3), "elcode": np.arange(count)[:, None]}
        write_mat(locs / f"{name}_xslocs.mat", where)
        truth[name] = onsets, codes, data
    return truth


def epochs(n_trials, n_chans, n_times, n_classes, seed):
    """Return trials whose classes differ in sign or in the channels that are active; labels; in volts."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_trials) % n_classes)
    X = rng.standard_normal((n_trials, n_chans, n_times))
    X[:, :, n_times // 4 : n_times // 2] += np.where(y % 2, 1.0, -1.0)[:, None, None]
    X[np.arange(n_trials), y % n_chans] *= 4
    X[np.arange(n_trials), (y // n_chans * 5 + y + 3) % n_chans] *= 3
    return 1e-5 * X, y


def write_rsvp(folder, n_trials=80):
    """Write ten subjects of RSVP in the interchange format, integers with a scale and two sessions."""
    truth = {subject: epochs(n_trials, 16, 128, 2, subject) for subject in range(1, 11)}
    for subject, (X, y) in truth.items():
        scale = np.abs(X).max(axis=(0, 2)) / 32767
        options = {"scale": scale, "label_names": ["NonTarget", "Target"], "sfreq": 256.0}
        options["session"] = np.repeat(["0", "1"], n_trials // 2)
        path = Path(folder, f"subject_{subject:02d}.npz")
        save_subject(path, np.round(X / scale[:, None]).astype(np.int16), y, **options)
    return truth


def write_asl(folder):
    truth = {subject: epochs(99, 16, 1000, 33, 100 + subject) for subject in range(1, 11)}
    options = {"unit": "uV", "label_names": [f"sign{k:02d}" for k in range(33)], "sfreq": 1000.0}
    options |= {"ch_names": [f"M{k}" for k in range(16)], "ch_types": ["emg"] * 16}
    for subject, (X, y) in truth.items():
        path = Path(folder, f"subject_{subject:02d}.npz")
        np.savez(path, X=(1e6 * X).astype(np.float32), y=y, **options)  # compressing noise takes long
    return truth
