"""Tests of gains over subjects, seeds and settings, with the choice of a setting as a user would have made it.

Gains are arrays of shape (n_subjects, n_seeds), or with settings in front. NaN is a subject that was not tested, or
that is not in the group in question.
"""

import warnings

import numpy as np
import pandas as pd
from scipy.stats import t
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

__all__ = [
    "choose_nested",
    "correct",
    "describe",
    "fixed_gain",
    "nested_gain",
    "smallest_detectable",
    "weak_subjects",
]


def choose_nested(gains, none=False):
    """Return the gain of every subject with the setting that is best for all other subjects, and that setting.

    With `none`, a subject is not censored (setting -1) unless some setting gains for the others.
    """
    gains = np.asarray(gains, dtype=float)
    sums, counts = np.nansum(gains, axis=-1), np.isfinite(gains).sum(axis=-1)
    n_others = counts.sum(axis=-1, keepdims=True) - counts
    other_means = np.where(
        n_others, (sums.sum(axis=-1, keepdims=True) - sums) / np.maximum(n_others, 1), -np.inf
    )
    selected = other_means.argmax(axis=-2)
    nested = np.take_along_axis(gains, selected[..., None, :, None], axis=-3)[..., 0, :, :]
    if none:
        helps = other_means.max(axis=-2) > 0
        nested, selected = np.where(helps[..., None], nested, 0 * nested), np.where(helps, selected, -1)
    return nested, selected


def nested_gain(gains, groups, none=False, level=0.95, n_draws=2000, seed=0):
    r"""Test the gain that subjects would have got from the settings that are best for the others.

    Returns a row per group (name -> mask of subjects and seeds): subjects, gain, low, high, p and error.

    Notes
    -----
    All subjects choose from the same scores, so their nested gains are not independent: a t-test of them finds gains
    twice as often as it should where there are none. Therefore the choice is part of what is repeated. Each sample
    imitates a study without any gain (a wild bootstrap over subjects and seeds). Every setting's mean is subtracted.
    Then each subject's deviations are multiplied by one random sign per subject, and the effect of a seed on all
    subjects by one random sign per seed. The nested choice is repeated in every sample.

    Settings that clearly hurt keep their distance from the best. Otherwise those that destroy the task, which differ
    widely between subjects, would be chosen by luck in samples in which they do no harm. A loss is clear when it is
    more than :math:`\sqrt{2 \log \log n}` of its standard errors, n being the number of subjects, which is Hansen's
    bound.

    Gains are compared in units of their standard errors, of which every sample has its own: with a dozen subjects
    these vary, and plain means would be found large too often. Standard errors are those of clusters of subjects, of
    seeds, or of both, whichever is largest.

    For a single setting, this is the test of a mixed model with random effects of subjects and of seeds, without its
    normal distributions. A model without the effect of seeds, or a paired t-test of the subjects' means, finds too
    much where a lucky training of the baseline makes all subjects lose.

    References
    ----------
    Hansen (2005), A test for superior predictive ability. MacKinnon, Nielsen and Webb (2021), Wild bootstrap and
    asymptotic inference with multiway clustering.
    """
    gains, rng = np.asarray(gains, dtype=float), np.random.default_rng(seed)
    n_subjects, n_seeds = gains.shape[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a setting of which all trainings failed has no mean
        by_seed = np.nanmean(gains, axis=1, keepdims=True)
        mean = np.nanmean(by_seed, axis=2, keepdims=True)
        by_subject_deviation = (gains - by_seed) * np.sqrt(n_subjects / max(1, n_subjects - 1))
        by_seed_deviation = (by_seed - mean) * np.sqrt(n_seeds / max(1, n_seeds - 1))
        variance = np.nanmean(np.nanmean(by_subject_deviation, axis=2) ** 2, axis=1) / n_subjects
        variance += np.nanmean(by_seed_deviation**2, axis=(1, 2)) / n_seeds
        bound = np.sqrt(2 * np.log(max(1.0, np.log(n_subjects))) * variance)[:, None, None]
        hurts = mean * (mean < -bound)
        hurts -= np.nanmax(hurts)  # the best of them neither gains nor loses
    drawn = {name: [] for name in groups}
    for size in _blocks(n_draws, gains.size):
        signs = (rng.choice([-1.0, 1.0], (size, 1, *shape)) for shape in ((n_subjects, 1), (1, n_seeds)))
        nested, _ = choose_nested(
            hurts + next(signs) * by_subject_deviation + next(signs) * by_seed_deviation, none
        )
        for name, mask in groups.items():
            drawn[name].append(_mean_and_error(nested, mask))
    nested, _ = choose_nested(gains, none)
    columns, rows = ["subjects", "gain", "low", "high", "p", "error"], {}
    for name, mask in groups.items():
        count = (np.isfinite(nested) & mask).any(axis=1).sum()
        gain, error = _mean_and_error(nested, mask)
        rows[name] = (count, gain, -1.0, 1.0, 1.0, np.nan) if count else (0, *[np.nan] * 5)
        if count > 1:  # One subject says nothing of others.
            ratios = _ratio(*np.concatenate(drawn[name], axis=1))
            low, high = gain - error * np.quantile(ratios, [(1 + level) / 2, (1 - level) / 2])
            p = (1 + (np.abs(ratios) >= abs(_ratio(gain, error)) - 1e-9).sum()) / (1 + n_draws)
            rows[name] = count, gain, low, high, p, (high - low) / 2 / t.ppf((1 + level) / 2, count - 1)
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def fixed_gain(gains, groups):
    """Test the gain of one setting that was fixed beforehand, with more samples, which are cheap here."""
    return nested_gain(np.asarray(gains)[None], groups, n_draws=10_000)


def _blocks(n_draws, size, largest=4_000_000):
    """Return numbers of samples that fit into memory at a time."""
    step = max(1, largest // size)
    return [min(step, n_draws - first) for first in range(0, n_draws, step)]


def _mean_and_error(gains, mask):
    """Return means over subjects and seeds, and their standard errors by clusters of subjects, of seeds or of both."""
    is_tested = np.isfinite(gains) & mask
    n = np.maximum(is_tested.sum(axis=(-2, -1)), 1)
    mean = np.where(is_tested, gains, 0.0).sum(axis=(-2, -1)) / n
    residual = np.where(is_tested, gains - mean[..., None, None], 0.0)
    counts = [is_tested.any(axis=axis).sum(axis=-1) for axis in (-1, -2)]
    subjects, seeds = (
        (residual.sum(axis=axis) ** 2).sum(axis=-1) * count / np.maximum(count - 1, 1)
        for axis, count in zip((-1, -2), counts)
    )
    both = subjects + seeds - (residual**2).sum(axis=(-2, -1))
    # The largest of the three is used, because with few subjects each of them is far too small now and then.
    return np.stack([mean, np.sqrt(np.maximum(both, np.maximum(subjects, seeds))) / n])


def _ratio(gain, error):
    """Return gains in standard errors: infinitely many where all subjects gain alike, zero without a gain."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.where(np.abs(gain) < 1e-12, 0.0, gain / error), posinf=1e12, neginf=-1e12)


def weak_subjects(baseline, fraction=0.5):
    """Return a mask of the weaker subjects of every seed, by the scores of all other seeds.

    Subjects that are weak by the scores that a gain is measured from are weak by bad luck, too, and gain without any
    merit of the method.
    """
    baseline = np.asarray(baseline, dtype=float)
    weak = np.zeros(baseline.shape, dtype=bool)
    count = max(1, round(fraction * len(baseline)))
    if baseline.shape[1] > 1:
        for seed in range(baseline.shape[1]):
            by_other_seeds = np.nanmean(np.delete(baseline, seed, axis=1), axis=1)
            weak[np.argsort(by_other_seeds, kind="stable")[:count], seed] = True
    return weak


def correct(p):
    """Correct p-values for their number, by Holm's method."""
    p = np.array(p, dtype=float)
    is_known = np.isfinite(p)
    if is_known.any():
        p[is_known] = multipletests(p[is_known], method="holm")[1]
    return p


def smallest_detectable(error, n_subjects, n_tests=1, power=0.8, alpha=0.05):
    """Return the gain that a study would have found with a probability of `power`."""
    if not n_subjects >= 3 or np.isnan(error):
        return np.nan
    effect = TTestPower().solve_power(nobs=n_subjects, alpha=alpha / n_tests, power=power)
    return float(np.ravel(effect)[0] * error * np.sqrt(n_subjects))


def describe(gains):
    """Return gain, interval and p of one setting that was fixed beforehand, from gains (n_subjects, n_seeds)."""
    gains = np.asarray(gains, dtype=float)
    return fixed_gain(gains, {"all": np.isfinite(gains)}).iloc[0].to_dict()
