"""What is chosen for a given time, counted by hand."""

import math

import pytest

from braindecode_censor.search.budget import Budget, Cost, Rung, choose_rung, count_rungs, parse_seconds


@pytest.mark.parametrize(
    "value, seconds",
    [(None, None), (90, 90), ("90", 90), ("90s", 90), ("10m", 600), (" 1.5h ", 5400), (".5m", 30)],
)
def test_times(value, seconds):
    assert parse_seconds("time_limit", value) == seconds


@pytest.mark.parametrize("value", ["10 days", "", "m", "-3s", 0, -1, float("inf"), True])
def test_times_that_are_none(value):
    with pytest.raises(ValueError, match="time_limit="):
        parse_seconds("time_limit", value)


def test_trainings_replace_the_time():
    budget = Budget(600, 10)
    budget.trained = 4
    assert budget.left() == math.inf and budget.trainings_left() == 6 and budget.trainings_left(0.5) == 1
    with pytest.raises(ValueError, match="max_trainings=0 must be an integer of at least 1"):
        Budget(None, 0)


def test_time_that_is_left():
    clock = iter([100.0, 130.0, 130.0, 600.0])
    budget = Budget("10m", now=lambda: next(clock))
    assert budget.elapsed() == 30
    assert budget.left(0.5) == pytest.approx(0.5 * 0.88 * 600 - 30)
    assert budget.left() == pytest.approx(0.88 * 600 - 500)
    assert Budget(None).left() == Budget(None).trainings_left() == math.inf


def test_cost():
    cost = Cost(2.0, 0.01, 1500)
    assert cost.seconds(1) == 17 and cost.steps_of(0.25) == 375
    assert cost.steps_of(1e-6) == 10 and Cost(1, 1, 4).steps_of(0.1) == 4


COSTS = [Cost(0.0, 0.01, 1000)] * 8  # ten seconds each


@pytest.mark.parametrize(
    "seconds, last, expected",
    [
        (8 * 32 * 10, True, Rung(8, 32, 1.0)),
        (8 * 32 * 10 - 1, True, Rung(8, 16, 1.0)),
        (8 * 16 * 5, True, Rung(8, 16, 0.5)),
        (8 * 16 * 5 - 1, True, Rung(8, 8, 0.5)),
        (8 * 8 * 10, False, Rung(8, 8, 1.0)),
        (8 * 8 * 10 - 1, False, Rung(8, 8, 0.5)),
        (8 * 8 * 1.25, False, Rung(8, 8, 0.125)),
        (8 * 4 * 1.25, False, Rung(8, 4, 0.125)),
        (8 * 4 * 1.25 - 1, False, Rung(4, 4, 0.125)),
        (1.25, False, Rung(1, 1, 0.125)),
        (0.5, False, Rung(1, 1, 1 / 32)),
        (0.01, False, None),
    ],
)
def test_the_largest_round_that_fits(seconds, last, expected):
    found = choose_rung(COSTS, seconds + 1e-9, n_people=16, n_pairs=32, last=last)
    assert found == expected


def test_two_jobs_do_twice_as_much():
    assert choose_rung(COSTS, 640, 16, 32, jobs=2) == choose_rung(COSTS, 1280, 16, 32)


def test_a_single_pair_is_of_no_use_beside_others():
    assert choose_rung(COSTS[:1], 1.3, 16, 32) == Rung(1, 1, 0.125)
    assert choose_rung(COSTS[:1], 1.3, 16, 32, alone=False) == Rung(1, 4, 1 / 32)
    assert choose_rung(COSTS[:1], 0.5, 16, 32, alone=False) is None


def test_few_people():
    assert choose_rung(COSTS[:1], 1e9, n_people=3, n_pairs=3, last=True) == Rung(1, 3, 1.0)


def test_rounds():
    assert [count_rungs(n) for n in (1, 2, 3, 5, 6, 20)] == [1, 1, 2, 2, 3, 3]
