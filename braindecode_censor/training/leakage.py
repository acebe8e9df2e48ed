"""Subject leakage: the accuracy of fresh probes that predict the subject from a latent code."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from braindecode_censor._check import check_choice

__all__ = ["subject_leakage"]

PROBES = ("logistic", "kernel")
_N_LANDMARKS = 200


def subject_leakage(
    z, y, subjects, *, halves=False, probes=PROBES, n_splits=5, n_boot=1000, level=0.95, random_state=0
):
    r"""Cross-validate fresh probes that predict the subject from the latent code.

    Parameters
    ----------
    z : array-like of shape (n_trials, n_features)
        Latent code, in evaluation mode.
    y, subjects : array-like of shape (n_trials,)
        Class and subject of every trial.
    halves : bool
        Whether to probe the two halves of z too, as complementary censoring splits them.
    probes : tuple of str
        Names of the probes; the kernel probe is stronger and takes about five times as long.
    n_splits : int
        Folds of the cross-validation over trials.
    n_boot : int
        Bootstrap repetitions of the interval.
    level : float
        Coverage of the interval.
    random_state : int
        Seed of folds, kernel landmarks and bootstrap.

    Returns
    -------
    report : pandas.DataFrame
        Columns ``part`` ("all", "first half", "second half"), ``view`` ("marginal", "within class"),
        ``probe`` ("logistic", "kernel"), ``accuracy``, ``chance``, ``excess`` (accuracy over chance),
        ``low`` and ``high`` (bootstrap interval of the excess).

    Notes
    -----
    Accuracy is balanced over subjects, so chance is one over their number however many trials each has.
    Within class, a probe is trained per class on that class's trials, and accuracies are averaged over
    classes: this is what conditional censoring removes. A class (or a subject in it) with fewer trials than
    two is left out. The interval resamples trials within each subject, given the fitted probes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> s, y = np.arange(200) % 2, np.arange(200) // 2 % 2
    >>> report = subject_leakage(rng.normal(size=(200, 3)) + 3 * s[:, None], y, s)
    >>> bool((report.low > 0.4).all())
    True
    """
    z, y, subjects = np.asarray(z, dtype=float), np.asarray(y), np.asarray(subjects)
    _check(z, y, subjects)
    middle = z.shape[1] // 2
    codes = {"all": z} | ({"first half": z[:, :middle], "second half": z[:, middle:]} if halves else {})
    groups = {"marginal": np.zeros(len(y)), "within class": y}
    rows = []
    for part, probe, view in product(codes, probes, groups):
        model = _probes(codes[part].shape[1], random_state)[check_choice("probes", probe, PROBES)]
        hits = _cross_validate(model, codes[part], subjects, groups[view], n_splits, random_state)
        summary = _summarize(hits, n_boot, level, random_state)
        rows.append({"part": part, "view": view, "probe": probe, **summary})
    return pd.DataFrame(rows)


def _probes(n_features, random_state):
    # On standardised features the median squared distance is about 2 * n_features: the median heuristic.
    kernel = Nystroem(
        kernel="rbf", gamma=0.25 / n_features, n_components=_N_LANDMARKS, random_state=random_state
    )
    return {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        # Kernel features are small numbers, for which the default ridge is too strong.
        "kernel": make_pipeline(StandardScaler(), kernel, LogisticRegression(C=100, max_iter=1000)),
    }


def _cross_validate(model, z, subjects, groups, n_splits, random_state):
    """Return, for every group and subject in it, a mask of the trials whose subject was predicted."""
    hits = []
    for group in np.unique(groups):
        idx = np.flatnonzero(groups == group)
        _, s, counts = np.unique(subjects[idx], return_inverse=True, return_counts=True)
        idx, s = idx[counts[s] > 1], s[counts[s] > 1]
        if len(np.unique(s)) < 2:
            continue
        n_folds = min(n_splits, counts[counts > 1].min())
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=random_state)
        with warnings.catch_warnings():  # Nystroem takes fewer landmarks where there are fewer trials.
            warnings.filterwarnings("ignore", message="n_components > n_samples")
            is_hit = cross_val_predict(model, z[idx], s, cv=folds) == s
        hits.append([is_hit[s == label] for label in np.unique(s)])
    if not hits:
        raise ValueError("subjects: no class has two subjects with two trials each: add trials.")
    return hits


def _summarize(hits, n_boot, level, random_state):
    rng = np.random.default_rng(random_state)
    chance = np.mean([1 / len(group) for group in hits])

    def accuracy(draw):
        return np.mean([np.mean([draw(is_hit) for is_hit in group], axis=0) for group in hits], axis=0)

    boot = (
        accuracy(lambda is_hit: rng.binomial(len(is_hit), is_hit.mean(), size=n_boot) / len(is_hit)) - chance
    )
    low, high = np.quantile(boot, [(1 - level) / 2, (1 + level) / 2])
    excess = accuracy(np.mean) - chance
    return {"accuracy": excess + chance, "chance": chance, "excess": excess, "low": low, "high": high}


def _check(z, y, subjects):
    if z.ndim != 2 or not np.isfinite(z).all():
        raise ValueError(f"z has shape {z.shape}: expected finite values of shape (n_trials, n_features).")
    for name, labels in (("y", y), ("subjects", subjects)):
        if labels.shape != (len(z),):
            raise ValueError(
                f"{name} has shape {labels.shape} and z has {len(z)} trials: pass one per trial."
            )
    if len(np.unique(subjects)) < 2:
        raise ValueError("subjects: subject leakage needs at least two.")
