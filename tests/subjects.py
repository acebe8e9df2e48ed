"""Subjects who differ by the mixing of their channels, and quick decoders of them."""

import warnings

import numpy as np


def mixed_subjects(
    n_subjects=5, n_trials=20, n_chans=4, n_times=64, n_classes=2, mixing=0.6, effect=2.5, seed=0
):
    """Return X, y and subjects (1, 2, ...): a class is a strong source, mixed differently for every subject."""
    rng = np.random.default_rng(seed)
    y = np.tile(np.arange(n_trials) % n_classes, n_subjects)
    subjects = np.repeat(np.arange(1, n_subjects + 1), n_trials)
    power = np.ones((n_classes, n_chans))
    for k in range(n_classes):
        power[k, k % n_chans] = effect
    X = rng.normal(size=(len(y), n_chans, n_times)) * power[y][:, :, None]
    mix = np.eye(n_chans) + mixing * rng.normal(size=(n_subjects, n_chans, n_chans)) / np.sqrt(n_chans)
    return (mix[subjects - 1] @ X).astype("float32"), y, subjects


def fit_decoder(X, y=None, subjects=None, **options):
    """Return a decoder of two classical candidates, fitted without warnings; `options` may be others."""
    from braindecode_censor import AutoTransferClassifier

    options = {
        "candidates": ["power", "riemann"],
        "device": "cpu",
        "verbose": 0,
        "time_limit": None,
        **options,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return AutoTransferClassifier(**options).fit(X, y, subjects=subjects)
