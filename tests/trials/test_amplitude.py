"""The estimate of a subject's amplitude: the mode of a posterior with heavy tails."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm, t

from braindecode_censor.trials.amplitude import AmplitudePrior, log_amplitude

PRIOR = AmplitudePrior(2.0, 0.35, 0.7)


@pytest.mark.parametrize("level", [-3.0, 1.7, 2.4, 3.5, 7.0])
@pytest.mark.parametrize("n_trials", [1, 5, 40])
def test_estimate_is_a_mode_of_the_posterior(level, n_trials):
    def loss(x):
        scale = 2 * PRIOR.trial_spread / n_trials
        return -t.logpdf(x, 3, PRIOR.centre, PRIOR.spread) - norm.logpdf(level, x, scale)

    estimate = PRIOR.estimate(level, n_trials)
    near = minimize_scalar(loss, bounds=(estimate - 0.05, estimate + 0.05), method="bounded").x
    assert abs(near - estimate) < 5e-3


def test_other_amplifier_is_believed_and_loud_gesture_is_not():
    far, loud = np.log(100), 0.7
    assert PRIOR.estimate(2 + far, 2) > 2 + 0.85 * far
    assert PRIOR._replace(trial_spread=0.15).estimate(2 + far, 1) > 2 + 0.95 * far
    assert PRIOR.estimate(2 + far, 3) > 2 + 0.95 * far
    assert PRIOR.estimate(2 - far, 20) == pytest.approx(2 - far, abs=0.02)
    assert PRIOR.estimate(2 + loud, 1) < 2 + 0.5 * loud
    assert PRIOR.estimate(2 + loud, 50) == pytest.approx(2 + loud, abs=0.02)
    assert PRIOR.estimate(-np.inf, 3) == 2, "silence tells nothing"


def test_one_subject_in_another_unit_does_not_move_the_prior():
    rng = np.random.default_rng(0)
    levels, spreads = 3 + 0.4 * rng.standard_normal(15), np.full(15, 0.3)
    prior, other = (
        AmplitudePrior.of_subjects(x, spreads) for x in (levels, np.r_[levels[:-1], 3 + np.log(1e6)])
    )
    assert prior.trial_spread == 0.3
    np.testing.assert_allclose(other[:2], prior[:2], atol=0.15)
    assert 0.25 < prior.spread < 0.6
    silent = AmplitudePrior.of_subjects(np.r_[levels, -np.inf], np.r_[spreads, 0.3])
    assert silent == prior


def test_amplitude_scales_with_the_signals():
    variances = np.array([[1.0, 4.0, 9.0], [0, 0, 1]])
    np.testing.assert_allclose(log_amplitude(variances), [np.log(2), -np.inf])
