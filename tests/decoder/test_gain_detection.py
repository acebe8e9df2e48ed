"""The tool says "gain" where people differ in a way that it can undo, and not where they are alike."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from braindecode_censor.paper.demo import describe_new_people

ROOT = Path(__file__).parents[2]
WAYS = ["plain network", "the paper's AutoTransfer", "this, nothing known", "this, their unlabelled trials"]


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("gain_detection", ROOT / "benchmarks" / "gain_detection.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_gain_is_said_where_people_differ(benchmark):
    found = [benchmark.detect("people differ", seed) for seed in range(10)]
    assert sum(row["said"] == "gain" for row in found) >= 9
    assert np.mean([row["mean"] for row in found]) > 0.1


def test_no_gain_is_said_where_people_are_alike(benchmark):
    found = [benchmark.detect("people alike", seed) for seed in range(10)]
    assert sum(row["said"] != "noise" for row in found) <= 1
    assert abs(np.mean([row["mean"] for row in found])) < 0.03


def describe(gain, seed):
    rng = np.random.default_rng(seed)
    scores = pd.DataFrame(0.6 + 0.05 * rng.normal(size=(8, 4)), columns=WAYS)
    scores[WAYS[3]] += gain
    return describe_new_people(scores, 0.9)


def test_the_demonstration_does_not_take_luck_for_a_gain():
    said = [describe(0.0, seed) for seed in range(300)]
    lucky = np.mean(["neither better nor worse" not in text for text in said])
    assert lucky < 0.08  # five in a hundred; percentiles of eight people would give ten
    assert all("decodes them better" in describe(0.15, seed) for seed in range(20))
    assert "decodes them worse" in describe(-0.2, 0)
