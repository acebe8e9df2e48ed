"""Is each subject the validation subject exactly once in a leave-one-subject-out run?"""

import itertools
import warnings

import numpy as np
import pytest

from braindecode_censor.trials.splits import split_subject, validation_subject


def _rotation(people, all_subjects=None):
    """Validation subject of every fold."""
    return [validation_subject([p for p in people if p != held_out], all_subjects) for held_out in people]


@pytest.mark.parametrize(
    "people",
    [
        list(range(1, 11)),
        list(range(8)),
        [101, 102, 103],
        ["S01", "S02", "S03", "S04"],
        ["sub-9", "sub-10", "sub-11"],  # sorted by number, not by letter
    ],
    ids=str,
)
def test_consecutive_labels_need_no_roster(people):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = _rotation(people)
    assert sorted(chosen) == sorted(people)


@pytest.mark.parametrize(
    "people", [[1, 2, 5, 9, 12], ["anna", "bert", "dora"], ["S1", "S4", "S9", "S16"], [7, 3, 11, 2]], ids=str
)
def test_any_labels_with_a_roster(people):
    chosen = _rotation(people, all_subjects=people)
    assert sorted(chosen) == sorted(people)
    successors = [people[(i + 1) % len(people)] for i in range(len(people))]
    assert chosen == successors


def test_the_validation_subject_is_one_that_may_be_trained_on():
    people = np.array([1, 2, 5, 9, 12])
    for size in (1, 2, 3, 4):
        for present in itertools.combinations(people, size):
            assert validation_subject(present, all_subjects=people.tolist()) in present


def test_a_search_inside_a_fold_rotates_too():
    people = list(range(1, 11))
    for outer in people:
        rest = [p for p in people if p != outer]
        inner = [validation_subject([p for p in rest if p != held_out], people) for held_out in rest]
        assert len(set(inner)) >= 5


@pytest.mark.parametrize("people", [[1, 2, 5, 9, 12], ["anna", "bert", "dora", "emil"]], ids=str)
def test_gaps_without_a_roster_warn_and_stay_deterministic(people):
    with pytest.warns(UserWarning, match="Pass all_subjects="):
        first = _rotation(people)
    with pytest.warns(UserWarning, match="Pass all_subjects="):
        again = _rotation(people[::-1])
    assert first == again[::-1]


def test_numbers_far_apart_need_no_list_of_all_between():
    def literal(numbers):
        all_subjects = list(range(min(numbers), max(numbers) + 1))
        holes = [place for place, number in enumerate(all_subjects) if number not in numbers]
        start = sum(holes) + len(holes)
        turned = [all_subjects[(start + step) % len(all_subjects)] for step in range(len(all_subjects))]
        return next(number for number in turned if number in numbers)

    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(200):
            numbers = rng.choice(60, rng.integers(2, 12), replace=False) + rng.integers(100)
            assert validation_subject(numbers) == literal(numbers.tolist())
        assert validation_subject([3, 7, 10**15]) in (3, 7, 10**15)


def test_whole_numbers_may_be_floats():
    assert _rotation([1.0, 2.0, 3.0, 4.0]) == [2, 3, 4, 1]
    with pytest.warns(UserWarning, match="Pass all_subjects="):
        assert len(set(_rotation([1e300, 2e300, 3e300, 4e300, 5e300]))) > 1


def test_the_claim_that_no_rule_on_training_labels_alone_rotates():
    """Exhaustively: for four people no choice within all pairs uses each of every three people once."""
    pairs = list(itertools.combinations(range(4), 2))
    triples = list(itertools.combinations(range(4), 3))
    for rule in itertools.product(range(2), repeat=len(pairs)):
        chosen = {pair: pair[which] for pair, which in zip(pairs, rule)}
        rotates = [len({chosen[p] for p in itertools.combinations(t, 2)}) == 3 for t in triples]
        assert not all(rotates)


def test_split_subject():
    train, valid = split_subject(["a", "b", "a", "c"], "a")
    assert train.tolist() == [1, 3]
    assert valid.tolist() == [0, 2]
    train, valid = split_subject([1, 2, 1], None)
    assert train.tolist() == [0, 1, 2]
    assert valid.size == 0


def test_errors():
    with pytest.raises(ValueError, match=r"valid_subject=9 has no trials; choose one of \[1, 2\]"):
        split_subject([1, 2, 2], 9)
    with pytest.raises(ValueError, match=r"all_subjects=\[1, 2\] lacks the subjects \[3\]"):
        validation_subject([1, 3], all_subjects=[1, 2])
