"""Folds of two subjects: counted; and the training of a candidate on a fold."""

from itertools import combinations

import numpy as np
import pytest

from braindecode_censor.run.training import TrialData
from braindecode_censor.search.family import find_candidates
from braindecode_censor.search.folds import FoldedTrials, fold_seed, make_folds, partners_of


def degrees(folds, n_subjects):
    return np.bincount(np.ravel(folds), minlength=n_subjects)


def reachable(folds, start=0):
    subjects, before = {start}, set()
    while subjects != before:
        before, subjects = subjects, {p for fold in folds if subjects & set(fold) for p in fold} | subjects
    return subjects


def folded(n_subjects, partners=4, **options):
    y, subjects = np.tile([0, 1], n_subjects), np.repeat(np.arange(n_subjects), 2)
    data = TrialData(np.zeros((len(y), 2, 16), np.float32), y, subjects)
    return FoldedTrials(data, make_folds(n_subjects, partners), **options)


@pytest.mark.parametrize("n_subjects", [6, 7, 12, 19, 40])
@pytest.mark.parametrize("partners", [2, 3, 4, 8])
def test_make_folds_gives_all_subjects_the_same_number_of_partners(n_subjects, partners):
    folds = make_folds(n_subjects, partners)
    degree = min(partners, n_subjects - 1)
    counts = degrees(folds, n_subjects)
    assert len(set(folds)) == len(folds) and all(a < b for a, b in folds)
    if n_subjects * degree % 2:
        assert sorted(counts) == [degree] * (n_subjects - 1) + [degree + 1]
    else:
        assert (counts == degree).all() and len(folds) == n_subjects * degree // 2
    assert reachable(folds) == set(range(n_subjects))


@pytest.mark.parametrize("n_subjects", [3, 4, 5])
def test_make_folds_of_few_subjects_uses_all_pairs(n_subjects):
    assert sorted(make_folds(n_subjects, 2)) == list(combinations(range(n_subjects), 2))


@pytest.mark.parametrize("n_subjects", [0, 1, 2])
def test_make_folds_refuses_too_few_subjects(n_subjects):
    with pytest.raises(ValueError, match=f"subjects: {n_subjects} subjects, but at least 3 are needed"):
        make_folds(n_subjects)


def test_make_folds_refuses_one_partner_and_follows_its_seed():
    with pytest.raises(ValueError, match="partners=1 must be an integer of at least 2"):
        make_folds(8, 1)
    assert make_folds(16, 4, 3) == make_folds(16, 4, 3) != make_folds(16, 4, 4)


@pytest.mark.parametrize("n_subjects", [6, 16, 17])
def test_make_folds_treats_subjects_alike_from_the_first(n_subjects):
    folds = make_folds(n_subjects, 4)
    for length in range(1, len(folds) + 1):
        counts = degrees(folds[:length], n_subjects)
        assert counts.max() - counts.min() <= 2
    assert degrees(folds[: n_subjects // 2], n_subjects).max() == 1


def test_partners_of_a_subject():
    assert partners_of(2, [(0, 2), (1, 3), (2, 3)]) == {0: 0, 3: 2}


def test_fold_seeds_differ():
    seeds = {fold_seed(seed, fold) for seed in range(5) for fold in range(20)}
    assert len(seeds) == 100 and fold_seed(3, 7) == fold_seed(3, 7)


@pytest.mark.parametrize("n_subjects", [3, 4, 5, 6, 7, 16, 17])
def test_first_folds_test_every_subject_and_are_few(n_subjects):
    trials = folded(n_subjects)
    first = trials.folds[: trials.n_first_folds]
    assert set(np.ravel(first)) == set(range(n_subjects))
    assert set(np.ravel(first[:-1])) != set(range(n_subjects))
    assert len(first) <= n_subjects // 2 + 2


def test_training_sees_all_subjects_but_those_of_its_fold():
    trials = folded(7, target="none")
    (candidate,), _ = find_candidates([{"name": "net", "network": "EEGNet", "max_steps": 8}])
    for fold, pair in enumerate(trials.folds):
        training = trials.training(candidate, fold, steps=3)
        assert training.test == pair and set(training.train) == set(range(7)) - set(pair)
        assert (training.name, training.target, training.estimator.max_steps) == ("net", "none", 3)
        assert training.estimator.random_state == fold_seed(0, fold)


def test_max_subjects_samples_nested_sets_of_training_subjects():
    (candidate,), _ = find_candidates(["power"])
    subsets = [set(folded(9, max_subjects=n).training(candidate, 2).train) for n in range(1, 8)]
    assert [len(subset) for subset in subsets] == [1, 2, 3, 4, 5, 6, 7]
    assert all(a < b for a, b in zip(subsets, subsets[1:]))
    assert not subsets[-1] & set(folded(9).folds[2])


def test_folded_trials_refuses_an_unknown_target():
    with pytest.raises(ValueError, match="target='all' is unknown"):
        folded(4, target="all")
