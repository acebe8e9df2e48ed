"""Each subject is the validation subject exactly once in a leave-one-subject-out run."""

import itertools
import warnings

import numpy as np
import pytest

from braindecode_censor.trials.splits import split_trials, validation_subject


def _rotation(subjects, all_subjects=None):
    return [validation_subject([s for s in subjects if s != held_out], all_subjects) for held_out in subjects]


@pytest.mark.parametrize(
    "subjects",
    [
        list(range(1, 11)),
        list(range(8)),
        [101, 102, 103],
        ["S01", "S02", "S03", "S04"],
        ["sub-9", "sub-10", "sub-11"],  # sorted by number, not by letter
    ],
    ids=str,
)
def test_consecutive_labels_need_no_list(subjects):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sorted(_rotation(subjects)) == sorted(subjects)


@pytest.mark.parametrize(
    "subjects",
    [[1, 2, 5, 9, 12], ["anna", "bert", "dora"], ["S1", "S4", "S9", "S16"], [7, 3, 11, 2]],
    ids=str,
)
def test_successor_in_the_list_of_all_subjects(subjects):
    assert _rotation(subjects, all_subjects=subjects) == [*subjects[1:], subjects[0]]


def test_validation_subject_is_a_training_subject():
    subjects = [1, 2, 5, 9, 12]
    for size in (1, 2, 3, 4):
        for present in itertools.combinations(subjects, size):
            assert validation_subject(present, all_subjects=subjects) in present


def test_nested_folds_rotate():
    subjects = list(range(1, 11))
    for outer in subjects:
        inner = _rotation([s for s in subjects if s != outer], subjects)
        assert len(set(inner)) >= 5


@pytest.mark.parametrize("subjects", [[1, 2, 5, 9, 12], ["anna", "bert", "dora", "emil"]], ids=str)
def test_gaps_without_a_list_warn(subjects):
    with pytest.warns(UserWarning, match="Pass all_subjects="):
        first = _rotation(subjects)
    with pytest.warns(UserWarning, match="Pass all_subjects="):
        again = _rotation(subjects[::-1])
    assert first == again[::-1]


def test_numbers_far_apart():
    """The same subject as by a list of all numbers in between, without that list."""

    def by_list(numbers):
        all_subjects = list(range(min(numbers), max(numbers) + 1))
        gaps = [k for k, number in enumerate(all_subjects) if number not in numbers]
        start = sum(gaps) + len(gaps)
        rotated = [all_subjects[(start + step) % len(all_subjects)] for step in range(len(all_subjects))]
        return next(number for number in rotated if number in numbers)

    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(200):
            numbers = rng.choice(60, rng.integers(2, 12), replace=False) + rng.integers(100)
            assert validation_subject(numbers) == by_list(numbers.tolist())
        assert validation_subject([3, 7, 10**15]) in (3, 7, 10**15)


def test_whole_numbers_as_floats():
    assert _rotation([1.0, 2.0, 3.0, 4.0]) == [2, 3, 4, 1]
    with pytest.warns(UserWarning, match="Pass all_subjects="):
        assert len(set(_rotation([1e300, 2e300, 3e300, 4e300, 5e300]))) > 1


def test_split_trials():
    train, valid = split_trials(["a", "b", "a", "c"], ["a"])
    assert (train.tolist(), valid.tolist()) == ([1, 3], [0, 2])
    train, valid = split_trials([1, 2, 1], [])
    assert (train.tolist(), valid.tolist()) == ([0, 1, 2], [])


def test_unknown_subjects():
    with pytest.raises(ValueError, match=r"valid_subject=9 has no trials; choose one of \[1, 2\]"):
        split_trials([1, 2, 2], [1, 9])
    with pytest.raises(ValueError, match=r"all_subjects=\[1, 2\] lacks the subjects \[3\]"):
        validation_subject([1, 3], all_subjects=[1, 2])
