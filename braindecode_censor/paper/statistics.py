"""Statistics of a gain: paired over subjects, over seeds, and corrected for regression to the mean."""

import numpy as np
from scipy.stats import rankdata, t, wilcoxon

__all__ = ["compare", "gain_of_weak_subjects", "lower_quartile", "seed_interval", "seed_spread"]


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


def seed_spread(scores, baseline, summary=np.mean):
    """Compare a gain with its spread over seeds; scores have one row per subject and one column per seed."""
    scores, baseline = np.asarray(scores, dtype=float), np.asarray(baseline, dtype=float)
    gains = np.array([summary(a) - summary(b) for a, b in zip(scores.T, baseline.T)])
    gain = float(gains.mean())
    if len(gains) < 2:
        return {"gain": gain, "spread": float("nan"), "distinguishable": None}
    spread = float(gains.std(ddof=1))
    return {"gain": gain, "spread": spread, "distinguishable": bool(abs(gain) > seed_interval(gains))}


def gain_of_weak_subjects(scores, baseline, fraction=0.5):
    """Return the gain of the subjects with the lowest baseline, naive and without regression to the mean."""
    scores, baseline = np.asarray(scores, dtype=float), np.asarray(baseline, dtype=float)
    count = max(1, round(fraction * len(scores)))

    def gain(order_seeds, test_seeds):
        weak_idx = np.argsort(baseline[:, order_seeds].mean(axis=1), kind="stable")[:count]
        return float((scores[weak_idx][:, test_seeds] - baseline[weak_idx][:, test_seeds]).mean())

    every, even, odd = slice(None), slice(0, None, 2), slice(1, None, 2)
    naive = gain(every, every)
    if baseline.shape[1] < 2:
        return {"naive": naive, "fair": float("nan")}
    # The same seed starts both decoders alike, so the seeds that order the subjects are excluded from both sides.
    return {"naive": naive, "fair": (gain(even, odd) + gain(odd, even)) / 2}
