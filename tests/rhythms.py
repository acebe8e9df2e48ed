"""Trials whose class and subject are rhythms, so that both can be decoded."""

import numpy as np
from cases import IDS, METHODS, MODES  # noqa: F401 (for the tests of training)
from cases import PENALTIES as METHODS_AND_MODES  # noqa: F401


def simulate(n_subjects=5, n_trials=32, n_classes=2, n_chans=4, n_times=96, shift=1.0, effect=1.0, seed=0):
    """Return X, y and subjects (1, 2, ...), `n_trials` per subject.

    A class is the topography of one rhythm, a subject the frequency of another.
    """
    rng = np.random.default_rng(seed)
    subjects = np.repeat(np.arange(1, n_subjects + 1), n_trials)
    y = np.tile(np.arange(n_trials) % n_classes, n_subjects)
    time = np.arange(n_times) / n_times
    topographies = rng.normal(size=(n_classes, n_chans))
    x = rng.normal(size=(len(y), n_chans, n_times))
    phase = rng.uniform(0, 2 * np.pi, size=(len(y), 1))
    x += effect * topographies[y][:, :, None] * np.sin(2 * np.pi * 10 * time + phase)[:, None]
    x += shift * np.sin(2 * np.pi * (3 + 4 * subjects[:, None]) * time + phase)[:, None]
    return x.astype("float32"), y, subjects
