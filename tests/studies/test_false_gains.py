"""Studies without a gain, from which one sees how often the test finds one."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from studies.censoring.gain import nested_gain

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("false_gains", ROOT / "benchmarks" / "false_gains.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_gain_is_taken_out_a_loss_stays_and_settings_vary_as_before(script):
    rng = np.random.default_rng(0)
    people, seeds = 0.02 * rng.normal(size=(1, 14, 1)), 0.01 * rng.normal(size=(1, 1, 6))
    gains = np.array([0.05, 0.0, -0.2]).reshape(3, 1, 1) + people + seeds + 0.01 * rng.normal(size=(3, 14, 6))
    made = np.stack([script.make_null(gains, rng) for _ in range(300)])
    np.testing.assert_allclose(made.mean(axis=(0, 2, 3)), [0, 0, gains[2].mean()], atol=0.003)
    spread = made.mean(axis=3).std(axis=2, ddof=1).mean(axis=0)
    np.testing.assert_allclose(spread, gains.mean(axis=2).std(axis=1, ddof=1), rtol=0.15)
    # what people have in common in all settings stays in common
    means = made.mean(axis=-1)
    assert np.mean([np.corrcoef(one[0], one[1])[0, 1] for one in means]) > 0.7


def test_the_choice_among_them_gains_seldom(script):
    rng = np.random.default_rng(1)
    gains = 0.02 * rng.normal(size=(12, 14, 1)) + 0.02 * rng.normal(size=(12, 14, 4))
    gains[3] += 0.04
    everybody = {"all": np.ones((14, 4), dtype=bool)}
    assert nested_gain(gains, everybody, none=True, n_draws=300)["p"].item() < 0.05
    p = [
        nested_gain(script.make_null(gains, rng), everybody, none=True, n_draws=300)["p"].item()
        for _ in range(150)
    ]
    assert np.mean(np.array(p) < 0.05) <= 0.1
