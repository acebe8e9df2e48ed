"""Batches hold several trials of several subjects, use all trials alike and leave global generators alone."""

import numpy as np
import pytest
import torch

from braindecode_censor.trials.sampler import SubjectBatches, batch_shape

SUBJECTS = np.repeat(np.arange(8), 40)
CLASSES = np.tile(np.arange(2), 160)


def test_batches_hold_p_subjects_with_q_trials_each():
    for batch in SubjectBatches(SUBJECTS, batch_size=64, subjects_per_batch=4):
        _, counts = np.unique(SUBJECTS[batch], return_counts=True)
        assert counts.tolist() == [16] * 4


def test_conditional_batches_fill_all_cells():
    y = (np.arange(320) % 10 == 0).astype(int)  # Plain batches would leave cells of the rare class empty.
    for batch in SubjectBatches(SUBJECTS, y, batch_size=64):
        cells = np.unique(np.stack([SUBJECTS[batch], y[batch]]), axis=1, return_counts=True)[1]
        assert cells.tolist() == [4] * 16


@pytest.mark.parametrize("n_trials", [40, 37, 3])
def test_trials_of_a_cell_are_used_equally_often(n_trials):
    subjects = np.repeat(np.arange(3), n_trials)
    batches = SubjectBatches(subjects, batch_size=24)
    n_uses = np.zeros(len(subjects), dtype=int)
    for _ in range(50):
        for batch in batches:
            assert len(set(batch)) == len(batch)
            n_uses[batch] += 1
    assert n_uses.max() - n_uses.min() <= 1


@pytest.mark.parametrize("y", [None, CLASSES], ids=["marginal", "conditional"])
def test_batches_have_equal_labels_and_different_trials(y):
    batches = list(SubjectBatches(SUBJECTS, y, batch_size=64))
    assert len(batches) == len(SUBJECTS) // 64
    assert len({tuple(SUBJECTS[batch]) for batch in batches}) == 1
    if y is not None:
        assert len({tuple(y[batch]) for batch in batches}) == 1
    assert len({tuple(batch) for batch in batches}) == len(batches)


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
def test_batch_shape(arguments, shape):
    assert batch_shape(*arguments) == shape


def test_draw_probability_is_the_frequency_of_draws():
    subjects = np.array([0] * 30 + [1] * 10)
    y = np.array([0] * 25 + [1] * 5 + [0] * 5 + [1] * 5)
    batches = SubjectBatches(subjects, y, batch_size=16)
    counts = np.zeros(40)
    for _ in range(2000):
        for batch in batches:
            counts[batch] += 1
    probability = batches.draw_probability()
    np.testing.assert_allclose(probability, counts / counts.sum(), rtol=0.05)
    np.testing.assert_allclose(np.bincount(y, weights=probability), [0.5, 0.5])


def test_subject_without_a_class():
    subjects, y = np.array([0] * 8 + [1] * 8), np.array([0, 1] * 4 + [0] * 8)
    assert all(len(batch) for batch in SubjectBatches(subjects, y, batch_size=8))


def test_order_depends_on_the_seed_alone():
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (list(SubjectBatches(SUBJECTS, random_state=seed)) for seed in (0, 0, 1))
    assert first == again != other
    assert torch.equal(state[0], torch.get_rng_state())
    assert np.array_equal(state[1], np.random.get_state()[1])  # noqa: NPY002


def test_batch_larger_than_the_data_holds_all_trials():
    (batch,) = SubjectBatches(np.repeat([0, 1], 5), batch_size=1000)
    assert sorted(batch) == list(range(10))


def test_invalid_sizes():
    with pytest.raises(ValueError, match="batch_size=1 must be an integer of at least 2"):
        SubjectBatches(SUBJECTS, batch_size=1)
    with pytest.raises(ValueError, match="subjects_per_batch=0 must be"):
        SubjectBatches(SUBJECTS, subjects_per_batch=0)
