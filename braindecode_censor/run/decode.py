"""Decoding held-out subjects with what a decoder may know of them."""

import contextlib
import warnings

import numpy as np
import sklearn

from braindecode_censor.run.model import is_network
from braindecode_censor.trials.quality import TrialsWarning

__all__ = ["adapt_to", "calibration_mask", "decode_subject", "predict_others", "quiet"]

_CALIBRATION = 0.2  # of the trials of every class, as in MOABB's smallest labelled mode


def decode_subject(model, X, y, target, n_classes):
    """Return the probabilities of a held-out subject's trials, NaN where the labels were given to the model.

    The labels are used for calibration trials alone, and only with ``target="labeled"``.
    """
    calibration = calibration_mask(y) if target == "labeled" else np.zeros(len(X), dtype=bool)
    if target == "unlabeled":
        model = adapt_to(model, X)
    elif calibration.any():
        model = adapt_to(model, X[calibration], y[calibration])
    return predict_others(model, X, calibration, n_classes)


def predict_others(model, X, calibration, n_classes):
    """Return probabilities, NaN for calibration trials and zero for classes that the model does not know."""
    probabilities = np.full((len(X), n_classes), np.nan)
    probabilities[~calibration] = 0
    columns = np.asarray(model.classes_, dtype=int)
    probabilities[np.ix_(~calibration, columns)] = model.predict_proba(X[~calibration])
    if not np.isfinite(probabilities[~calibration]).all():
        raise ValueError("probabilities are not finite.")
    return probabilities


def adapt_to(model, X, y=None):
    """Return a model for one subject; labels are passed on where the model can use them, -1 is unknown."""
    if not hasattr(model, "adapt"):
        return model
    has_class = np.isin(y, model.classes_)
    if y is None or not getattr(model, "uses_labels", True) or not has_class.any():
        return model.adapt(X)
    if is_network(model):  # All trials give the statistics.
        return model.adapt(X, np.where(has_class, y, -1))
    return model.adapt(X[has_class], y[has_class])


def calibration_mask(y):
    """Return a mask of the trials that would be labelled first: a fifth of every class, but never all of them."""
    mask = np.zeros(len(y), dtype=bool)
    for k in np.unique(y):
        rows = np.flatnonzero(y == k)
        mask[rows[: min(max(1, round(_CALIBRATION * len(rows))), len(rows) - 1)]] = True
    return mask


@contextlib.contextmanager
def quiet():
    """Suppress warnings that a search repeats for every training: no target data, gaps in subject numbers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no trials of the new")
        warnings.filterwarnings("ignore", message="The subject labels .* are not consecutive")
        warnings.filterwarnings("ignore", category=sklearn.exceptions.ConvergenceWarning)
        warnings.filterwarnings("ignore", category=TrialsWarning)  # The search checks the trials once.
        yield
