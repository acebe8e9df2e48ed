"""Pairs of people: counted."""

from itertools import combinations

import numpy as np
import pytest

from braindecode_censor.search.folds import make_pairs, partners_of, seed_of_pair


def degrees(pairs, n_people):
    return np.bincount(np.ravel(pairs), minlength=n_people)


def reached(pairs, start=0):
    """Everybody who can be reached from one person along pairs."""
    found = {start}
    while True:
        more = {p for pair in pairs if found & set(pair) for p in pair} | found
        if more == found:
            return found
        found = more


@pytest.mark.parametrize("n_people", [6, 7, 12, 16, 19, 40])
@pytest.mark.parametrize("degree", [2, 3, 4, 5, 8])
def test_everybody_has_the_same_number_of_partners(n_people, degree):
    pairs = make_pairs(n_people, degree)
    degree = min(degree, n_people - 1)
    found = degrees(pairs, n_people)
    assert len(set(pairs)) == len(pairs) and all(a < b for a, b in pairs)
    if n_people * degree % 2:
        assert sorted(found) == [degree] * (n_people - 1) + [degree + 1]
    else:
        assert (found == degree).all() and len(pairs) == n_people * degree // 2
    assert reached(pairs) == set(range(n_people))


@pytest.mark.parametrize("n_people", [3, 4, 5])
def test_few_people_use_all_pairs(n_people):
    assert sorted(make_pairs(n_people, 2)) == list(combinations(range(n_people), 2))


@pytest.mark.parametrize("n_people", [0, 1, 2])
def test_too_few_people(n_people):
    with pytest.raises(ValueError, match=f"subjects: {n_people} people, but at least 3 are needed"):
        make_pairs(n_people)


def test_a_degree_of_one_leaves_pairs_unconnected():
    with pytest.raises(ValueError, match="degree=1 must be an integer of at least 2"):
        make_pairs(8, 1)


def test_same_seed_same_pairs_and_another_seed_other_pairs():
    assert make_pairs(16, 4, 3) == make_pairs(16, 4, 3) != make_pairs(16, 4, 4)


@pytest.mark.parametrize("n_people", [6, 16, 17])
def test_any_first_part_treats_people_alike(n_people):
    pairs = make_pairs(n_people, 4)
    for length in range(1, len(pairs) + 1):
        found = degrees(pairs[:length], n_people)
        assert found.max() - found.min() <= 2
    assert degrees(pairs[: n_people // 2], n_people).max() == 1  # nobody twice before nearly everybody once


def test_partners():
    pairs = [(0, 1), (2, 3), (1, 3)]
    assert partners_of(3, pairs) == {2: 1, 1: 2}
    assert partners_of(4, pairs) == {}


def test_seeds_differ_between_pairs_and_searches():
    seeds = [seed_of_pair(state, position) for state in range(5) for position in range(50)]
    assert len(set(seeds)) == 250 and min(seeds) >= 0
    assert seed_of_pair(2, 7) == seed_of_pair(2, 7)
