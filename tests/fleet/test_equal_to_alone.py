"""Is a member of a fleet the very training that the estimator does alone?"""

import numpy as np
import pytest
import torch
from rhythms import IDS, METHODS_AND_MODES

from braindecode_censor import PAPER, CensoredEEGClassifier
from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.fleet import Member, train_fleet
from braindecode_censor.fleet.resident import People
from braindecode_censor.penalties.penalty import DegenerateBatchWarning
from fleet.folds import assert_equal, data, folds, make, train_alone, train_together

CASES = [(None, "marginal"), *METHODS_AND_MODES]
CASE_IDS = ["baseline", *IDS]
# Every method once, every mode at least once: who stops when does not depend on the rest.
FEW = {"baseline": CASES[0], **{IDS[k]: METHODS_AND_MODES[k] for k in (0, 4, 8, 9, 13)}}


def three(method, mode, **options):
    """Three settings of one graph: other seeds, weights, learning rates, epochs."""
    shared = {"penalty": method, "censoring": mode, **options}
    return [
        {**shared, "random_state": 0, "weight": 0.1},
        {**shared, "random_state": 1, "weight": 0.0, "warmup": 2, "critic_lr": 3e-3},
        {**shared, "random_state": 2, "weight": 1.0, "warmup": 2, "lr": 3e-3},
    ]


@pytest.mark.parametrize(("method", "mode"), CASES, ids=CASE_IDS)
def test_after_twenty_steps(method, mode):
    """Nobody validates, and the last weights are kept. (Without vmap: ``test_all_methods_side_by_side``.)"""
    X, y, subjects = data(n_subjects=4, n_trials=20)
    settings = three(method, mode, max_epochs=4, batch_size=12)[::2]
    settings = [{**setting, "valid_subject": None, "keep": "last"} for setting in settings]
    alone = train_alone(X, y, subjects, settings)
    assert min(sum(len(epoch["batches"]) for epoch in clf.history) for clf in alone) >= 20
    together = train_together(X, y, subjects, settings, vectorise=True)
    for k, one in enumerate(alone):
        state = together[k].module_.state_dict()
        for name, tensor in one.module_.state_dict().items():
            assert (state[name] - tensor).abs().max() < 1e-8, name
        losses = [clf.history[:, "train_loss"] for clf in (together[k], one)]
        np.testing.assert_allclose(*losses, rtol=1e-8)


@pytest.mark.parametrize(("method", "mode"), FEW.values(), ids=FEW)
def test_full_run_with_members_that_stop_at_different_epochs(method, mode):
    """Two places for three members, so that stopping makes room; dropout draws the very same masks."""
    X, y, subjects = data(shift=0.3)
    settings = three(method, mode)
    for setting, patience, epochs in zip(settings, (1, 2, None), (9, 9, 5)):
        setting.update(patience=patience, max_epochs=epochs, module__drop_prob=0.25, lr=1e-2)
    alone = train_alone(X, y, subjects, settings)
    assert len({len(clf.history) for clf in alone}) > 1
    together = train_together(X, y, subjects, settings, group_size=2)
    assert_equal(together, alone, 1e-9)


@pytest.mark.parametrize("method", [None, "adv"])
def test_single_precision_agrees_to_rounding(method):
    X, y, subjects = data()
    settings = three(method, "conditional", module__drop_prob=0.25)
    alone = train_alone(X, y, subjects, settings, CensoredEEGClassifier)
    for vectorise in (False, True):
        together = train_together(X, y, subjects, settings, CensoredEEGClassifier, vectorise=vectorise)
        assert_equal(together, alone, 1e-5)


def ragged():
    """Subjects with unequal numbers of trials and classes that some lack: batches of unequal size and number."""
    X, y, subjects = data(n_trials=30, n_classes=3)
    keep = np.ones(len(y), dtype=bool)
    keep[(subjects == 2) & (np.arange(len(y)) % 3 == 0)] = False  # subject 2 lacks a class
    keep[np.flatnonzero(subjects == 4)[9:]] = False  # subject 4 has nine trials
    return X[keep], y[keep], subjects[keep]


@pytest.mark.parametrize("sampling", ["balanced", "shuffle"])
@pytest.mark.parametrize("method", ["adv", "pairmmd"])
def test_ragged_batches(method, sampling):
    X, y, subjects = ragged()
    settings = three(method, "conditional", sampling=sampling, module__drop_prob=0.25, batch_size=20)
    alone = train_alone(X, y, subjects, settings)
    members = [Member(*task, People(X, subjects), y) for task in folds(subjects, settings)]
    sizes = [[len(batch) for batch in member.draw_batches()] for member in members]
    assert len({tuple(one) for one in sizes}) > 1, "the case is not ragged"
    assert_equal(train_together(X, y, subjects, settings), alone, 1e-9)


OPTIONS = {
    "more critic steps": {"penalty": "adv", "critic_steps": 3},
    "random pairs": {"penalty": "pairmmd", "pairs": "clique", "size": 2},
    "dealt out": {"penalty": "mige", "calibrate": True},
    "score estimator": {"penalty": "mige", "score_estimator": "nu", "reg": 1e-2, "lengthscale": "median"},
    "option of the callback": {"penalty": "began", "callbacks__censor__gamma": 1.2},
    "optimiser": {"penalty": "mmd", "optimizer__weight_decay": 0.3, "optimizer__betas": (0.8, 0.9)},
    "plain classes": {"penalty": "mmd", "class_weighted": False, "normalize": "none"},
    "many validation batches": {"penalty": "mmd", "iterator_valid__batch_size": 7},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_of_the_estimator(options):
    X, y, subjects = data()
    settings = [{"random_state": seed, "weight": 0.1, **options} for seed in range(2)]
    assert_equal(train_together(X, y, subjects, settings), train_alone(X, y, subjects, settings), 1e-9)


def test_batches_that_say_nothing_are_told_of():
    """Nobody looks at values in a fleet, so the sizes of batches must do."""
    X, y, subjects = data()
    settings = [
        {
            "penalty": "mige",
            "calibrate": True,
            "censoring": "conditional",
            "batch_size": 8,
            "subjects_per_batch": 2,
        }
    ]
    with pytest.warns(
        DegenerateBatchWarning, match="2 trials of a subject and class, and the penalty needs 3"
    ):
        train_together(X, y, subjects, settings)


def test_the_fleet_is_not_blind_to_its_members():
    """The comparison above would notice another seed, weight or fold."""
    X, y, subjects = data()
    settings = [{"penalty": "mmd", "weight": 1.0, "random_state": 0}]
    alone = train_alone(X, y, subjects, settings)
    for change in ({"random_state": 1}, {"weight": 2.0}, {"lr": 2e-3}, {"batch_norm_momentum": 0.2}):
        other = train_together(X, y, subjects, [{**settings[0], **change}])
        with pytest.raises(AssertionError):
            assert_equal(other, alone, 1e-6)


def test_a_member_does_not_depend_on_who_else_is_there():
    X, y, subjects = data()
    options = {"penalty": "adv", "weight": 0.1, "module__drop_prob": 0.25}
    settings = [{**options, "random_state": seed} for seed in range(3)]
    for masks in ("drawn", "hashed"):
        whole = train_together(X, y, subjects, settings, masks=masks, vectorise=True)
        first = train_together(X, y, subjects, settings[:1], masks=masks, vectorise=True)
        assert_equal({0: whole[0]}, [first[0]], 1e-9)


def test_different_encoders_are_trained_apart():
    X, y, subjects = data()
    settings = [{"penalty": "mmd", "weight": 0.3, "module__F1": f1} for f1 in (2, 3)]
    assert_equal(train_together(X, y, subjects, settings), train_alone(X, y, subjects, settings), 1e-9)


def test_all_methods_side_by_side():
    """Encoders run as one, penalties group by group; batches of other sizes, and people who join later."""
    X, y, subjects = ragged()
    settings = [
        {"penalty": method, "censoring": mode, "weight": 0.1, "random_state": k, "max_epochs": 1 + k % 3}
        for k, (method, mode) in enumerate(CASES)
    ]
    everybody = np.arange(len(y))
    alone = [make(**setting).fit(X, y, subjects=subjects) for setting in settings]
    for vectorise in (False, True):
        tasks = [(k, make(**setting), everybody) for k, setting in enumerate(settings)]
        together = train_fleet(tasks, X, y, subjects, vectorise=vectorise, group_size=12)
        assert_equal({member.key: member.clf for member in together}, alone, 1e-9)


def test_a_loss_that_is_never_finite_is_reported_and_hurts_nobody_else():
    X, y, subjects = data()
    settings = [{"penalty": "mmd", "weight": 0.1}, {"penalty": "mmd", "weight": 0.1, "lr": 1e30}]
    members = {member.key: member for member in train_fleet(folds(subjects, settings), X, y, subjects)}
    assert "never finite" in members[1].error
    assert members[0].error is None
    assert_equal({0: members[0].clf}, train_alone(X, y, subjects, settings[:1]), 1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"module": FastEEGNet(3, 2, 64)},
        {"optimizer": torch.optim.SGD},
        {"random_state": None},
        {"compile": True},
        {"callbacks": [("mine", object())]},
    ],
    ids=["built", "optimizer", "unseeded", "compiled", "callbacks"],
)
def test_what_the_fleet_cannot_train_is_said(options):
    X, y, subjects = data()
    clf = CensoredEEGClassifier(**{**PAPER, "max_epochs": 1, **options})
    with pytest.raises(ValueError, match=r"is not for the fleet.*engine='sequential'"):
        list(train_fleet([(0, clf, np.arange(len(y)))], X, y, subjects))


def test_predictions_of_a_fitted_member(tmp_path):
    """It is an estimator like any other: predicts, saves, loads."""
    X, y, subjects = data()
    settings = [{"penalty": "mmd", "weight": 0.1}]
    (clf,) = train_together(X, y, subjects, settings, CensoredEEGClassifier).values()
    (alone,) = train_alone(X, y, subjects, settings, CensoredEEGClassifier)
    np.testing.assert_allclose(clf.predict_proba(X), alone.predict_proba(X), atol=1e-5)
    clf.save(tmp_path / "clf")
    loaded = CensoredEEGClassifier.load(tmp_path / "clf")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert make(CensoredEEGClassifier).get_params().keys() == clf.get_params().keys()
