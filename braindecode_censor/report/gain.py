"""Is a gain more than chance? For several people, seeds and settings, as a user would have got it.

Gains are arrays of shape (n_people, n_seeds), or with settings in front. NaN is a person who was not tested, or does
not belong to those who are asked about.
"""

import warnings

import numpy as np
import pandas as pd
from scipy.stats import bootstrap, sem, t, ttest_1samp
from statsmodels.regression.mixed_linear_model import MixedLM
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

__all__ = [
    "choose_nested",
    "correct",
    "describe",
    "interval",
    "mixed_model",
    "nested_gain",
    "smallest_detectable",
    "weak_people",
]


def interval(gains, level=0.95, n_draws=2000, seed=0):
    """Return mean and interval of a gain by a bootstrap over people and seeds.

    Parameters
    ----------
    gains : ndarray of shape (n_people, n_seeds)
        Gains.
    level : float
        Coverage.
    n_draws : int
        Bootstrap samples.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    gain, low, high : float
        Mean, and percentile interval.

    Notes
    -----
    The same seeds were used for everybody, so people and seeds are drawn independently of each other, and a sample
    holds every drawn person with every drawn seed. Both kinds of chance are in the interval, and what is left of a
    training when both are known counts more than once, so that it is rather too wide. Percentiles of few people are
    too narrow by the square root of n / (n - 1) and by the tails of Student's t; the interval is stretched by both.
    """
    gains = np.asarray(gains, dtype=float)
    gains = gains[np.isfinite(gains).any(axis=1)]
    n_people, n_seeds = gains.shape
    mean = float(np.nanmean(gains))
    if n_people < 2:
        return mean, -1.0, 1.0

    def statistic(people, seeds, axis=-1):
        with warnings.catch_warnings():
            # Maybe nobody of those drawn was tested with the seeds drawn.
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.nanmean(gains[people[..., :, None], seeds[..., None, :]], axis=(-2, -1))

    samples = (np.arange(n_people), np.arange(n_seeds))
    if n_seeds == 1:  # nothing to draw from
        samples, plain = samples[:1], statistic
        statistic = lambda people, axis=-1: plain(people, np.zeros_like(people[..., :1]))  # noqa: E731
    drawn = bootstrap(
        samples,
        statistic,
        n_resamples=n_draws,
        vectorized=True,
        method="percentile",
        confidence_level=level,
        rng=np.random.default_rng(seed),
    ).bootstrap_distribution
    low, high = np.nanquantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    normal, student = t.ppf((1 + level) / 2, [np.inf, n_people - 1])
    stretch = student / normal * np.sqrt(n_people / (n_people - 1))
    return mean, float(mean - stretch * (mean - low)), float(mean + stretch * (high - mean))


def mixed_model(gains):
    """Fit a linear mixed model with a random intercept for every person.

    Parameters
    ----------
    gains : ndarray of shape (n_people, n_seeds)
        Gains.

    Returns
    -------
    result : dict of str to float
        ``gain`` and ``error``, the fixed effect and its standard error, and the two-sided ``p`` by Student's t with as
        many degrees of freedom as there are people, less one: normal quantiles are too small for a dozen of them.
        With equally many seeds for everybody and people who differ this is the paired t-test of their means, which
        is done where there is one seed.
    """
    person, seed = np.nonzero(np.isfinite(gains))
    values = np.asarray(gains, dtype=float)[person, seed]
    tested, person = np.unique(person, return_inverse=True)
    n_people, spread = len(tested), values.std()
    if n_people < 2 or spread < 1e-12:
        sure = n_people > 1 and values.any()  # the same gain for everybody, every time
        return {"gain": float(values.mean()), "error": np.nan if n_people < 2 else 0.0, "p": float(not sure)}
    means = np.array([values[person == k].mean() for k in range(n_people)])
    # One number each, or seeds that differ by rounding only: what is a person's own cannot be told from the rest.
    if np.abs(values - means[person]).max() < 1e-6 * spread:
        return _paired_test(means)
    with warnings.catch_warnings():
        # It says that people who do not differ are at the edge of what is allowed, which they may be.
        warnings.simplefilter("ignore")
        # In units of the spread, for tolerances are made for numbers around one; Powell's method, because those with
        # gradients run away here.
        model = MixedLM(values / spread, np.ones((len(values), 1)), groups=person)
        try:
            fit = model.fit(reml=True, method="powell")
            gain, error = float(fit.fe_params[0] * spread), float(fit.bse_fe[0] * spread)
        except np.linalg.LinAlgError:
            error = np.nan
    if not error > 0:  # the fit failed
        return _paired_test(means)
    return {"gain": gain, "error": error, "p": float(2 * t.sf(abs(gain / error), n_people - 1))}


def _paired_test(means):
    return {"gain": float(means.mean()), "error": float(sem(means)), "p": float(ttest_1samp(means, 0).pvalue)}


def choose_nested(gains, none=False):
    """Return the gain that every person would have got from the setting that all others like best.

    Parameters
    ----------
    gains : ndarray of shape (..., n_settings, n_people, n_seeds)
        Gains of every setting.
    none : bool
        Whether "none of them", with a gain of zero, can be chosen, too.

    Returns
    -------
    nested : ndarray of shape (..., n_people, n_seeds)
        Gains of the settings chosen.
    chosen : ndarray of int of shape (..., n_people)
        Which one; -1 is none of them.
    """
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

    Parameters
    ----------
    gains : ndarray of shape (n_settings, n_people, n_seeds)
        Gains of every setting.
    groups : dict of str to ndarray of bool of shape (n_people, n_seeds)
        Whose gain is asked for; everybody takes part in the choice.
    none : bool
        As for :func:`choose_nested`.
    level : float
        Coverage of the interval.
    n_draws : int
        Samples.
    seed : int
        Seed of the samples.

    Returns
    -------
    table : DataFrame
        For every group ``people``, ``gain``, ``low``, ``high``, ``p`` (two-sided) and ``error`` (standard error).

    Notes
    -----
    All people choose from the same scores, so their nested gains are no independent numbers, and a t-test of them finds
    gains twice as often as it should where there are none. So the choice is part of what is repeated. A sample has the
    gains of a study in which no setting gains anything: means of settings are taken out, and what is left is given
    random signs, the same for all numbers of a person, and for what a seed does to everybody the same for the seed (a
    wild bootstrap over people and seeds). The nested choice is made anew in every sample. Settings that clearly hurt
    keep their distance from the best: those that destroy the task differ widely between people, and would be chosen
    by luck in samples in which they do no harm, though nobody would choose them. A loss is clear when it is more
    than :math:`\sqrt{2 \log \log n}` of its standard errors, n being the number of people, which is Hansen's bound.

    References
    ----------
    Hansen (2005), A test for superior predictive ability.
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
            drawn[name].append(_mean_of(nested, mask))
    nested, _ = choose_nested(gains, none)
    rows = {}
    for name, mask in groups.items():
        gain, chance = float(_mean_of(nested, mask)), np.concatenate(drawn[name])
        low, high = gain - np.nanquantile(chance, [(1 + level) / 2, (1 - level) / 2])
        p = (1 + (np.abs(chance) >= abs(gain) - 1e-12).sum()) / (1 + n_draws)
        people = (np.isfinite(nested) & mask).any(axis=1).sum()
        rows[name] = {"people": people, "gain": gain, "low": low, "high": high, "p": p, "error": chance.std()}
        if not people:
            rows[name] = {"people": 0}
    return pd.DataFrame.from_dict(
        rows, orient="index", columns=["people", "gain", "low", "high", "p", "error"]
    )


def _in_parts(n_draws, size, most=4_000_000):
    """Numbers of samples that fit into memory at a time."""
    step = max(1, most // size)
    return [min(step, n_draws - begun) for begun in range(0, n_draws, step)]


def _mean_of(gains, mask):
    known = np.isfinite(gains) & mask
    return np.where(known, gains, 0.0).sum(axis=(-2, -1)) / np.maximum(known.sum(axis=(-2, -1)), 1)


def weak_people(baseline, share=0.5):
    """Tell who is weak, seed by seed, from all other seeds.

    Who is weak by the very scores that a gain is measured from is weak by bad luck, too, and the next training has
    better luck: such people gain without any merit of the method. With other seeds this luck is another one.

    Parameters
    ----------
    baseline : ndarray of shape (n_people, n_seeds)
        Scores of the uncensored decoder.
    share : float
        Share of people called weak.

    Returns
    -------
    weak : ndarray of bool of shape (n_people, n_seeds)
        Whether to count a person with this seed; nowhere True with a single seed, which leaves no other.
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
    """Correct p-values for their number, by Holm's method.

    Parameters
    ----------
    p : array-like of shape (n_tests,)
        Of all tests that belong to one question.

    Returns
    -------
    p : ndarray of shape (n_tests,)
        Corrected; NaN stays NaN and does not count.
    """
    p = np.array(p, dtype=float)
    known = np.isfinite(p)
    if known.any():
        p[known] = multipletests(p[known], method="holm")[1]
    return p


def smallest_detectable(error, n_people, n_tests=1, power=0.8, alpha=0.05):
    """Return the gain that a study would have found with high probability, had it been there.

    Parameters
    ----------
    error : float
        Standard error of the gain.
    n_people : int
        People it was measured on.
    n_tests : int
        Tests of the question: the largest gain among them has to pass Holm's first step.
    power : float
        Probability of finding it.
    alpha : float
        Probability of finding any if there is none.

    Returns
    -------
    gain : float
        Of a two-sided paired t-test; NaN for fewer than three people.
    """
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
        ``people``, ``gain``, ``low`` and ``high`` by :func:`interval`, ``p`` and ``error`` by :func:`mixed_model`.
    """
    if not np.isfinite(gains).any():
        return {"people": 0, **dict.fromkeys(("gain", "low", "high", "p", "error"), np.nan)}
    gain, low, high = interval(gains)
    people, fit = int(np.isfinite(gains).any(axis=1).sum()), mixed_model(gains)
    return {"people": people, "gain": gain, "low": low, "high": high, "p": fit["p"], "error": fit["error"]}
