"""Is a gain more than chance? For several people, seeds and settings, as a user would have got it.

Gains are arrays of shape (n_people, n_seeds), or with settings in front. NaN is a person who was not tested, or does
not belong to those who are asked about.
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
    "nested_gain",
    "smallest_detectable",
    "unchosen_gain",
    "weak_people",
]


def choose_nested(gains, none=False):
    """Return the gain that every person would have got from the setting that all others like best."""
    gains = np.asarray(gains, dtype=float)
    sums, counts = np.nansum(gains, axis=-1), np.isfinite(gains).sum(axis=-1)
    left = counts.sum(axis=-1, keepdims=True) - counts
    others = np.where(left, (sums.sum(axis=-1, keepdims=True) - sums) / np.maximum(left, 1), -np.inf)
    chosen = others.argmax(axis=-2)
    nested = np.take_along_axis(gains, chosen[..., None, :, None], axis=-3)[..., 0, :, :]
    if none:
        helps = others.max(axis=-2) > 0
        nested, chosen = np.where(helps[..., None], nested, 0 * nested), np.where(helps, chosen, -1)
    return nested, chosen


def nested_gain(gains, groups, none=False, level=0.95, n_draws=2000, seed=0):
    r"""Test the gain that people would have got from the settings that others like best.

    Notes
    -----
    All people choose from the same scores, so their nested gains are no independent numbers, and a t-test of them finds
    gains twice as it should where there are none. So the choice is part of what is repeated. Each
    sample imitates a study without any gain (a wild bootstrap over people and seeds): every setting's mean is
    subtracted; then each person's deviations are multiplied by one random sign per person, and what a seed does to
    everybody by one random sign per seed. The nested choice is made anew in every sample. Settings that clearly hurt
    keep their distance from the best: those that destroy the task differ widely between people, and would be chosen
    by luck in samples in which they do no harm, though nobody would choose them. A loss is clear when it is more
    than :math:`\sqrt{2 \log \log n}` of its standard errors, n being the number of people, which is Hansen's bound.

    Gains are compared in units of their standard errors, of which every sample has its own: with a dozen people
    these vary, and plain means would be found large too often. Standard errors are those of clusters of people, of
    seeds, or of both, whichever is largest.

    Of a single setting, which nobody chose, this is the test of a mixed model with random effects of people and of
    seeds, without its normal distributions. A model without the effect of seeds, or a paired t-test of people's
    means, finds too much where a lucky training of the baseline makes everybody lose.

    References
    ----------
    Hansen (2005), A test for superior predictive ability. MacKinnon, Nielsen and Webb (2021), Wild bootstrap and
    asymptotic inference with multiway clustering.
    """
    gains, rng = np.asarray(gains, dtype=float), np.random.default_rng(seed)
    n_people, n_seeds = gains.shape[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a setting of which all trainings failed has no mean
        by_seed = np.nanmean(gains, axis=1, keepdims=True)
        mean = np.nanmean(by_seed, axis=2, keepdims=True)
        of_people = (gains - by_seed) * np.sqrt(n_people / max(1, n_people - 1))
        of_seeds = (by_seed - mean) * np.sqrt(n_seeds / max(1, n_seeds - 1))
        variance = np.nanmean(np.nanmean(of_people, axis=2) ** 2, axis=1) / n_people
        variance += np.nanmean(of_seeds**2, axis=(1, 2)) / n_seeds
        bound = np.sqrt(2 * np.log(max(1.0, np.log(n_people))) * variance)[:, None, None]
        hurts = mean * (mean < -bound)
        hurts -= np.nanmax(hurts)  # the best of them neither gains nor loses
    drawn = {name: [] for name in groups}
    for size in _in_parts(n_draws, gains.size):
        signs = (rng.choice([-1.0, 1.0], (size, 1, *shape)) for shape in ((n_people, 1), (1, n_seeds)))
        nested, _ = choose_nested(hurts + next(signs) * of_people + next(signs) * of_seeds, none)
        for name, mask in groups.items():
            drawn[name].append(_mean_and_error(nested, mask))
    nested, _ = choose_nested(gains, none)
    columns, rows = ["people", "gain", "low", "high", "p", "error"], {}
    for name, mask in groups.items():
        people = (np.isfinite(nested) & mask).any(axis=1).sum()
        gain, error = _mean_and_error(nested, mask)
        rows[name] = (people, gain, -1.0, 1.0, 1.0, np.nan) if people else (0, *[np.nan] * 5)
        if people > 1:  # of one person nothing follows for others
            ratios = _ratio(*np.concatenate(drawn[name], axis=1))
            low, high = gain - error * np.quantile(ratios, [(1 + level) / 2, (1 - level) / 2])
            p = (1 + (np.abs(ratios) >= abs(_ratio(gain, error)) - 1e-9).sum()) / (1 + n_draws)
            rows[name] = people, gain, low, high, p, (high - low) / 2 / t.ppf((1 + level) / 2, people - 1)
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def unchosen_gain(gains, groups):
    """Test the gain of one setting that nobody has chosen, with more samples, which are cheap here."""
    return nested_gain(np.asarray(gains)[None], groups, n_draws=10_000)


def _in_parts(n_draws, size, most=4_000_000):
    """Numbers of samples that fit into memory at a time."""
    step = max(1, most // size)
    return [min(step, n_draws - begun) for begun in range(0, n_draws, step)]


def _mean_and_error(gains, mask):
    """Means over people and seeds, and their standard errors by clusters of people, of seeds or of both."""
    known = np.isfinite(gains) & mask
    n = np.maximum(known.sum(axis=(-2, -1)), 1)
    mean = np.where(known, gains, 0.0).sum(axis=(-2, -1)) / n
    rest = np.where(known, gains - mean[..., None, None], 0.0)
    counts = [known.any(axis=axis).sum(axis=-1) for axis in (-1, -2)]
    people, seeds = (
        (rest.sum(axis=axis) ** 2).sum(axis=-1) * count / np.maximum(count - 1, 1)
        for axis, count in zip((-1, -2), counts)
    )
    both = people + seeds - (rest**2).sum(axis=(-2, -1))
    # The largest of the three: with few people each of them is far too small now and then.
    return np.stack([mean, np.sqrt(np.maximum(both, np.maximum(people, seeds))) / n])


def _ratio(gain, error):
    """Gain in standard errors; one that is the same for everybody is infinitely many, none at all is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.where(np.abs(gain) < 1e-12, 0.0, gain / error), posinf=1e12, neginf=-1e12)


def weak_people(baseline, share=0.5):
    """Tell who is weak, seed by seed, from all other seeds.

    Who is weak by the very scores that a gain is measured from is weak by bad luck, too, and the next training has
    better luck: such people gain without any merit of the method. With other seeds this luck is another one.
    """
    baseline = np.asarray(baseline, dtype=float)
    weak = np.zeros(baseline.shape, dtype=bool)
    count = max(1, round(share * len(baseline)))
    if baseline.shape[1] > 1:
        for seed in range(baseline.shape[1]):
            others = np.nanmean(np.delete(baseline, seed, axis=1), axis=1)
            weak[np.argsort(others, kind="stable")[:count], seed] = True
    return weak


def correct(p):
    """Correct p-values for their number, by Holm's method."""
    p = np.array(p, dtype=float)
    known = np.isfinite(p)
    if known.any():
        p[known] = multipletests(p[known], method="holm")[1]
    return p


def smallest_detectable(error, n_people, n_tests=1, power=0.8, alpha=0.05):
    """Return the gain that a study would have found with high probability, had it been there."""
    if not n_people >= 3 or np.isnan(error):
        return np.nan
    effect = TTestPower().solve_power(nobs=n_people, alpha=alpha / n_tests, power=power)
    return float(np.ravel(effect)[0] * error * np.sqrt(n_people))


def describe(gains):
    """Sum up the gains of one setting that nobody has chosen.

    Parameters
    ----------
    gains : ndarray of shape (n_people, n_seeds)
        Gains.

    Returns
    -------
    row : dict of str to float
        ``people``, ``gain``, ``low``, ``high``, ``p`` and ``error`` by :func:`unchosen_gain`.
    """
    gains = np.asarray(gains, dtype=float)
    return unchosen_gain(gains, {"everybody": np.isfinite(gains)}).iloc[0].to_dict()
