"""Statistics of a gain: paired over subjects, and over seeds."""

import numpy as np
from scipy.stats import rankdata, t, wilcoxon

__all__ = ["compare", "lower_quartile", "seed_interval", "seed_spread"]


def lower_quartile(values):
    """Return the 25th percentile with linear interpolation."""
    return float(np.percentile(np.asarray(values, dtype=float), 25))


def compare(scores, baseline, n_draws=10_000):
    """Compare two decoders on the same subjects: gain, p, effect (rank-biserial) and a bootstrap interval."""
    difference = np.asarray(scores, dtype=float) - np.asarray(baseline, dtype=float)
    nonzero = difference[difference != 0]
    p, effect = 1.0, 0.0
    if len(nonzero):
        p = float(wilcoxon(nonzero).pvalue)
        ranks = rankdata(np.abs(nonzero))
        effect = float((ranks * np.sign(nonzero)).sum() / ranks.sum())
    draws = np.random.default_rng(0).integers(len(difference), size=(n_draws, len(difference)))
    low, high = np.percentile(difference[draws].mean(axis=1), [2.5, 97.5])
    return {
        "gain": float(difference.mean()),
        "p": p,
        "effect": effect,
        "low": float(low),
        "high": float(high),
    }


def seed_interval(gains):
    """Return half the width of the 95 % interval of a mean over seeds, the last axis; NaN for one seed."""
    gains = np.asarray(gains, dtype=float)
    count = gains.shape[-1]
    if count < 2:
        return np.full(gains.shape[:-1], np.nan)
    return t.ppf(0.975, count - 1) * gains.std(axis=-1, ddof=1) / np.sqrt(count)


def seed_spread(scores, baseline):
    """Compare a gain with its spread over seeds; scores have one row per subject and one column per seed."""
    gains = (np.asarray(scores, dtype=float) - np.asarray(baseline, dtype=float)).mean(axis=0)
    if len(gains) < 2:
        return {"seed_spread": float("nan"), "distinguishable": None}
    return {
        "seed_spread": float(gains.std(ddof=1)),
        "distinguishable": bool(abs(gains.mean()) > seed_interval(gains)),
    }
