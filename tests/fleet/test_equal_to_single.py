"""Equality of a replica and the training that the estimator does by itself."""

import numpy as np
import pytest
import torch
from rhythms import IDS, METHODS_AND_MODES

from braindecode_censor import PAPER, CensoredEEGClassifier
from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.fleet import Replica, train_fleet
from braindecode_censor.fleet.device_trials import SubjectStatistics
from braindecode_censor.penalties.penalty import DegenerateBatchWarning
from fleet.folds import assert_equal, assert_trained_alike, data, fit_each, fit_fleet, folds, make

CASES = [(None, "marginal"), *METHODS_AND_MODES]
CASE_IDS = ["baseline", *IDS]
# Every method once, every mode at least once.
FEW = {"baseline": CASES[0], **{IDS[k]: METHODS_AND_MODES[k] for k in (0, 4, 8, 9, 13)}}


def three(method, mode, **options):
    """Three settings of one graph: other seeds, weights, learning rates, epochs."""
    shared = {"penalty": method, "censoring": mode, **options}
    return [
        {**shared, "random_state": 0, "weight": 0.1},
        {**shared, "random_state": 1, "weight": 0.0, "penalty__warmup": 2, "penalty__critic_lr": 3e-3},
        {**shared, "random_state": 2, "weight": 1.0, "penalty__warmup": 2, "lr": 3e-3},
    ]


@pytest.mark.parametrize(("method", "mode"), CASES, ids=CASE_IDS)
def test_replica_equals_single_training(method, mode):
    """Without validation, with dropout; the last weights are kept."""
    options = {"max_epochs": 2, "batch_size": 12, "module__drop_prob": 0.25}
    settings = three(method, mode, **options, valid_subject=None, keep="last")[::2]
    singles = assert_trained_alike(settings, 1e-8, data(n_subjects=4, n_trials=20, n_times=48))
    assert min(clf.step_ for clf in singles) >= 10


@pytest.mark.parametrize(("method", "mode"), FEW.values(), ids=FEW)
def test_replicas_stop_at_different_epochs(method, mode):
    """Two of three replicas at a time, so that stopping makes room; with validation."""
    settings = three(method, mode)
    for setting, patience, epochs in zip(settings, (1, 2, None), (7, 7, 4)):
        setting.update(patience=patience, max_epochs=epochs, module__drop_prob=0.25, lr=1e-2)
    trials = data(n_subjects=4, n_trials=16, n_times=48, shift=0.3)
    singles = assert_trained_alike(settings, trials=trials, group_size=2)
    assert len({len(clf.history) for clf in singles}) > 1


def ragged():
    """Subjects with unequal numbers of trials and classes that some lack: batches of unequal size and number."""
    X, y, subjects = data(n_trials=30, n_classes=3)
    mask = np.ones(len(y), dtype=bool)
    mask[(subjects == 2) & (np.arange(len(y)) % 3 == 0)] = False  # subject 2 lacks a class
    mask[np.flatnonzero(subjects == 4)[9:]] = False  # subject 4 has nine trials
    return X[mask], y[mask], subjects[mask]


@pytest.mark.parametrize(("method", "sampling"), [("adv", "shuffle"), ("pairmmd", "balanced")])
def test_ragged_batches(method, sampling):
    X, y, subjects = ragged()
    settings = three(method, "conditional", sampling=sampling, module__drop_prob=0.25, batch_size=20)
    statistics = SubjectStatistics(X, subjects)
    replicas = [Replica(*task, statistics, y) for task in folds(subjects, settings)]
    sizes = {tuple(len(batch) for batch in replica.draw_batches()) for replica in replicas}
    assert len(sizes) > 1, "the case is not ragged"
    assert_trained_alike(settings, trials=(X, y, subjects))


OPTIONS = {
    "more critic steps": {"penalty": "adv", "penalty__critic_steps": 3},
    "random pairs": {"penalty": "pairmmd", "penalty__pairs": "clique", "penalty__size": 2},
    "calibrated": {"penalty": "mige", "penalty__calibrate": True},
    "score estimator": {
        "penalty": "mige",
        "penalty__score": "nu",
        "penalty__reg": 1e-2,
        "penalty__lengthscale": "median",
    },
    "option of the penalty": {"penalty": "began", "penalty__gamma": 1.2},
    "optimiser": {"penalty": "mmd", "optimizer__weight_decay": 0.3, "optimizer__betas": (0.8, 0.9)},
    "plain classes": {"penalty": "mmd", "class_weighted": False, "normalize": "none"},
    "many validation batches": {"penalty": "mmd", "iterator_valid__batch_size": 7},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_of_the_estimator(options):
    settings = [{"random_state": seed, "weight": 0.1, "max_epochs": 2, **options} for seed in range(2)]
    assert_trained_alike(settings, trials=data(n_trials=16))


def test_batches_too_small_for_the_penalty_warn():
    options = {"penalty": "mige", "penalty__calibrate": True, "censoring": "conditional"}
    settings = [{**options, "batch_size": 8, "subjects_per_batch": 2, "max_epochs": 1}]
    message = "2 trials of a subject and class, and the penalty needs 3"
    with pytest.warns(DegenerateBatchWarning, match=message):
        fit_fleet(*data(), settings)


def test_comparison_notices_changes():
    X, y, subjects = data()
    settings = [{"penalty": "mmd", "weight": 1.0, "random_state": 0, "module__drop_prob": 0.25}]
    singles = fit_each(X, y, subjects, settings)
    for change in ({"random_state": 1}, {"weight": 2.0}, {"lr": 2e-3}, {"module__drop_prob": 0.3}):
        other = fit_fleet(X, y, subjects, [{**settings[0], **change}])
        with pytest.raises(AssertionError):
            assert_equal(other, singles, 1e-6)


def test_different_encoders_are_separate_groups():
    assert_trained_alike(
        [{"penalty": "mmd", "weight": 0.3, "max_epochs": 2, "module__F1": f1} for f1 in (2, 3)]
    )


def test_methods_side_by_side():
    """Encoders run as one, penalties group by group; batches of other sizes, and replicas that join later."""
    settings = [
        {"penalty": method, "censoring": mode, "weight": 0.1, "random_state": k, "max_epochs": 1 + k % 2}
        for k, (method, mode) in enumerate(FEW.values())
    ]
    assert_trained_alike(settings, trials=ragged(), group_size=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [({}, "never finite"), ({"valid_subject": None, "keep": "last"}, "not finite")],
    ids=["validation", "none"],
)
def test_diverged_replica_has_an_error_and_changes_no_other(options, message):
    X, y, subjects = data()
    settings = [{"penalty": "mmd", "weight": 0.1, "lr": lr, **options} for lr in (1e-3, 1e30)]
    replicas = {replica.key: replica for replica in train_fleet(folds(subjects, settings), X, y, subjects)}
    assert message in replicas[1].error
    assert replicas[0].error is None and replicas[0].seconds > 0
    assert_equal({0: replicas[0].clf}, fit_each(X, y, subjects, settings[:1]), 1e-9)


UNSUPPORTED = {
    "module": FastEEGNet(3, 2, 64),
    "optimizer": torch.optim.SGD,
    "random_state": None,
    "compile": True,
    "callbacks": [("mine", object())],
    "lr": -1.0,
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_argument_is_named(name):
    X, y, subjects = data()
    clf = CensoredEEGClassifier(**{**PAPER, "max_epochs": 1, name: UNSUPPORTED[name]})
    with pytest.raises(ValueError, match=rf"cannot be trained in a fleet.* {name}="):
        list(train_fleet([(0, clf, np.arange(len(y)))], X, y, subjects))


def test_fitted_replica_predicts_saves_and_loads(tmp_path):
    X, y, subjects = data()
    settings = [{"penalty": "mmd", "weight": 0.1}]
    (clf,) = fit_fleet(X, y, subjects, settings, CensoredEEGClassifier).values()
    (single,) = fit_each(X, y, subjects, settings, CensoredEEGClassifier)
    np.testing.assert_allclose(clf.predict_proba(X), single.predict_proba(X), atol=1e-5)
    clf.save(tmp_path / "clf")
    loaded = CensoredEEGClassifier.load(tmp_path / "clf")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert make(CensoredEEGClassifier).get_params().keys() == clf.get_params().keys()
