"""Is a gain more than chance: paired over subjects, over seeds, and against regression to the mean."""

import numpy as np
from scipy.stats import rankdata, t, wilcoxon

__all__ = ["compare", "gain_of_weak_subjects", "seed_spread"]


def compare(scores, baseline, n_draws=10_000):
    """Compare two decoders on the same subjects."""
    difference = np.asarray(scores, dtype=float) - np.asarray(baseline, dtype=float)
    moved = difference[difference != 0]
    p, effect = 1.0, 0.0
    if len(moved):
        p = float(wilcoxon(moved).pvalue)
        ranks = rankdata(np.abs(moved))
        effect = float((ranks * np.sign(moved)).sum() / ranks.sum())
    draws = np.random.default_rng(0).integers(len(difference), size=(n_draws, len(difference)))
    low, high = np.percentile(difference[draws].mean(axis=1), [2.5, 97.5])
    return {
        "gain": float(difference.mean()),
        "p": p,
        "effect": effect,
        "low": float(low),
        "high": float(high),
    }


def seed_spread(scores, baseline, summary=np.mean):
    """Tell whether a gain is more than what the seed alone does."""
    scores, baseline = np.asarray(scores, dtype=float), np.asarray(baseline, dtype=float)
    gains = np.array([summary(a) - summary(b) for a, b in zip(scores.T, baseline.T)])
    gain = float(gains.mean())
    if len(gains) < 2:
        return {"gain": gain, "spread": float("nan"), "distinguishable": None}
    spread = float(gains.std(ddof=1))
    half = t.ppf(0.975, len(gains) - 1) * spread / np.sqrt(len(gains))
    return {"gain": gain, "spread": spread, "distinguishable": bool(abs(gain) > half)}


def gain_of_weak_subjects(scores, baseline, share=0.5):
    """Return the gain for the subjects the baseline is worst on, without regression to the mean."""
    scores, baseline = np.asarray(scores, dtype=float), np.asarray(baseline, dtype=float)
    count = max(1, round(share * len(scores)))

    def gain(order, compared):
        weak = np.argsort(baseline[:, order].mean(axis=1), kind="stable")[:count]
        return float((scores[weak][:, compared] - baseline[weak][:, compared]).mean())

    every, even, odd = slice(None), slice(0, None, 2), slice(1, None, 2)
    naive = gain(every, every)
    if baseline.shape[1] < 2:
        return {"naive": naive, "fair": float("nan")}
    # The same seed starts both decoders alike, so the half that orders is left out on both sides.
    return {"naive": naive, "fair": (gain(even, odd) + gain(odd, even)) / 2}
