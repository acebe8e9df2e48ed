"""What a search may use: times and numbers of trainings."""

import math

import pytest

from braindecode_censor.search.budget import Budget, parse_seconds


@pytest.mark.parametrize(
    "value, seconds",
    [(None, None), (90, 90), ("90", 90), ("90s", 90), ("10m", 600), (" 1.5h ", 5400), ("0.5m", 30)],
)
def test_parse_seconds_of_texts_and_numbers(value, seconds):
    assert parse_seconds("time_limit", value) == seconds


@pytest.mark.parametrize("value", ["soon", "", "m", "-3s", 0, -1, float("inf"), True])
def test_parse_seconds_refuses_what_is_no_time(value):
    with pytest.raises(ValueError, match="time_limit="):
        parse_seconds("time_limit", value)


def test_budget_of_trainings_ignores_the_time_limit():
    budget = Budget(600, 10)
    budget.n_trained = 4
    assert budget.limit is None and budget.seconds_left() == math.inf and budget.trainings_left() == 6
    with pytest.raises(ValueError, match="max_trainings=0 must be an integer of at least 1"):
        Budget(None, 0)
    with pytest.raises(ValueError, match="time_limit='soon'"):
        Budget("soon", 10)


def test_budget_seconds_left():
    clock = iter([100.0, 130.0, 130.0, 600.0])
    budget = Budget("10m", now=lambda: next(clock))
    assert budget.elapsed() == 30
    assert budget.seconds_left(0.5) == pytest.approx(0.5 * 0.88 * 600 - 30)
    assert budget.seconds_left() == pytest.approx(0.88 * 600 - 500)
    assert Budget(None).seconds_left() == Budget(None).trainings_left() == math.inf
