"""Do batches hold what a penalty needs, use every trial equally often, and leave the generators alone?"""

import numpy as np
import pytest
import torch

from braindecode_censor.trials.sampler import SubjectBatches, batch_shape

SUBJECTS = np.repeat(np.arange(8), 40)
CLASSES = np.tile(np.arange(2), 160)


def test_every_batch_has_p_subjects_with_q_trials_each():
    batches = SubjectBatches(SUBJECTS, batch_size=64, subjects_per_batch=4)
    for batch in batches:
        found, counts = np.unique(SUBJECTS[batch], return_counts=True)
        assert len(found) == 4
        assert set(counts) == {16}


def test_conditional_batches_fill_every_cell_of_subject_and_class():
    y = (np.arange(320) % 10 == 0).astype(int)  # one target in ten: plain batches would leave cells empty
    for batch in SubjectBatches(SUBJECTS, y, batch_size=64):
        cells = np.unique(np.stack([SUBJECTS[batch], y[batch]]), axis=1, return_counts=True)[1]
        assert len(cells) == 16
        assert cells.min() == cells.max() == 4


@pytest.mark.parametrize("trials", [40, 37, 3])
def test_within_a_cell_all_trials_are_used_equally_often_and_none_twice_in_a_batch(trials):
    subjects = np.repeat(np.arange(3), trials)
    batches = SubjectBatches(subjects, batch_size=24)
    used = np.zeros(len(subjects), dtype=int)
    for _ in range(50):
        for batch in batches:
            assert len(set(batch)) == len(batch)
            used[batch] += 1
    assert used.max() - used.min() <= 1


@pytest.mark.parametrize("y", [None, CLASSES], ids=["marginal", "conditional"])
def test_batches_of_everybody_have_the_same_labels_and_other_trials(y):
    batches = list(SubjectBatches(SUBJECTS, y, batch_size=64))
    assert len({tuple(SUBJECTS[batch]) for batch in batches}) == 1
    if y is not None:
        assert len({tuple(y[batch]) for batch in batches}) == 1
    assert len({tuple(batch) for batch in batches}) == len(batches)


def test_an_epoch_has_as_many_batches_as_a_plain_one():
    assert len(SubjectBatches(SUBJECTS, batch_size=64)) == len(list(SubjectBatches(SUBJECTS))) == 320 // 64


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ((64, 8, 1), (8, 1, 8)),
        ((64, 50, 1), (8, 1, 8)),
        ((64, 8, 2), (8, 2, 4)),
        ((64, 8, 33), (4, 8, 2)),
        ((32, 2, 2), (2, 2, 8)),
    ],
)
def test_the_shape_of_a_batch(arguments, shape):
    assert batch_shape(*arguments) == shape


def test_share_is_how_often_a_trial_is_drawn():
    subjects = np.array([0] * 30 + [1] * 10)
    y = np.array([0] * 25 + [1] * 5 + [0] * 5 + [1] * 5)
    batches = SubjectBatches(subjects, y, batch_size=16)
    drawn = np.zeros(40)
    for _ in range(2000):
        for batch in batches:
            drawn[batch] += 1
    np.testing.assert_allclose(batches.share(), drawn / drawn.sum(), rtol=0.05)
    np.testing.assert_allclose(np.bincount(y, weights=batches.share()), [0.5, 0.5])


def test_a_subject_without_a_class_is_no_error():
    subjects, y = np.array([0] * 8 + [1] * 8), np.array([0, 1] * 4 + [0] * 8)
    for batch in SubjectBatches(subjects, y, batch_size=8):
        assert len(batch) > 0


def test_the_order_depends_on_the_seed_alone():
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (list(SubjectBatches(SUBJECTS, random_state=seed)) for seed in (0, 0, 1))
    assert first == again != other
    assert torch.equal(state[0], torch.get_rng_state())
    assert np.array_equal(state[1], np.random.get_state()[1])  # noqa: NPY002


def test_a_batch_larger_than_the_data_is_all_of_it():
    (batch,) = SubjectBatches(np.repeat([0, 1], 5), batch_size=1000)
    assert sorted(batch) == list(range(10))


def test_errors():
    with pytest.raises(ValueError, match="batch_size=1 must be an integer of at least 2"):
        SubjectBatches(SUBJECTS, batch_size=1)
    with pytest.raises(ValueError, match="subjects_per_batch=0 must be"):
        SubjectBatches(SUBJECTS, subjects_per_batch=0)
