"""Continued training: with fewer classes, other subjects or parameters, after loading, with new random numbers."""

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback

from braindecode_censor import CensoredEEGClassifier


@pytest.fixture
def words(data):
    """The data with three classes that have names; the third is an echo of the second."""
    x, y, subjects = data
    y = np.array(["a", "b", "c"])[np.where((y == 1) & (np.arange(len(y)) % 4 < 2), 2, y)]
    return x, y, subjects


@pytest.fixture
def quick(quick):
    """Three epochs, so that there is one between the first and the last."""
    return {**quick, "max_epochs": 3}


def _fit(data, quick, **options):
    return CensoredEEGClassifier(**{**quick, **options}).fit(*data)


def _weights(clf):
    return {name: tensor.clone() for name, tensor in clf.module_.state_dict().items()}


def _equal(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_partial_fit_adds_epochs(data, quick):
    x, y, subjects = data
    clf = _fit(data, quick).partial_fit(x, y, subjects=subjects)
    assert len(clf.history) == 6
    with pytest.raises(ValueError, match="subjects=None"):
        clf.partial_fit(x, y)
    with pytest.raises(ValueError, match="fit had"):
        clf.partial_fit(x[:, :, :-1], y, subjects=subjects)


def test_classes_keep_their_order(words, quick):
    x, y, subjects = words
    clf = _fit(words, quick, max_epochs=6, lr=1e-2)
    some = y != "a"
    clf.partial_fit(x[some], y[some], subjects=subjects[some])
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert clf.criterion_.weight[0] == 0
    assert (clf.criterion_.weight[1:] > 0).all()
    assert np.isfinite(clf.predict_proba(x)).all()
    assert np.isin(clf.predict(x[some]), ["b", "c"]).mean() > 0.5  # b has not become a
    with pytest.raises(
        ValueError, match=r"y has labels that fit did not have: \['d'\]; fit had \['a', 'b', 'c'\]"
    ):
        clf.partial_fit(x, np.where(y == "a", "d", y), subjects=subjects)


def test_new_validation_subject_resets_the_best_epoch(data, paper):
    x, y, subjects = data
    paper = {**paper, "lr": 0.0}  # every epoch is like the last, so the first is the best
    clf = _fit(data, paper, patience=10)
    before = dict(clf.callbacks_)["best"].loss_
    clf.partial_fit(x, y, subjects=subjects)
    assert clf.best_epoch_ <= 3  # The validation subject is the same.
    assert dict(clf.callbacks_)["best"].loss_ == before
    some = subjects != clf.valid_subject_
    clf.set_params(valid_subject=np.unique(subjects[some])[0].item())
    clf.partial_fit(x[some], y[some], subjects=subjects[some])
    assert clf.best_epoch_ > 6
    assert clf.valid_score_ == clf.history[clf.best_epoch_ - 1, "valid_balanced_accuracy"]


def test_patience_counts_epochs_of_a_call(data, paper):
    x, y, subjects = data
    clf = _fit(data, {**paper, "lr": 0.0, "batch_norm_momentum": 1e-12}, patience=2)  # nothing moves
    assert len(clf.history) == 3
    clf.partial_fit(x, y, subjects=subjects)
    assert len(clf.history) == 5  # two more without progress


def test_set_params_between_calls(data, paper):
    x, y, subjects = data
    clf = _fit(data, paper, weight=1.0)
    clf.set_params(weight=1000.0, patience=1)
    assert dict(clf.callbacks_)["censor"].weight == 1000.0
    clf.partial_fit(x, y, subjects=subjects)
    assert dict(clf.callbacks_)["censor"].weight_ == 1000.0
    assert dict(clf.callbacks_)["best"].patience == 1
    clf.set_params(penalty=None).partial_fit(x, y, subjects=subjects)
    assert "censor" not in dict(clf.callbacks_)


def test_seeds(data, quick):
    x, y, subjects = data
    state = torch.get_rng_state()
    twins = [_fit(data, quick).partial_fit(x, y, subjects=subjects) for _ in range(2)]
    assert torch.equal(state, torch.get_rng_state())
    assert _equal(*map(_weights, twins))
    first = CensoredEEGClassifier(**quick).partial_fit(x, y, subjects=subjects)
    assert _equal(_weights(first), _weights(_fit(data, quick)))  # a first call is a fit
    # a second call draws other batches than the first
    batches = [list(twins[0].batches_), list(first.batches_)]
    assert batches[0] != batches[1]


def test_failed_training_leaves_no_critic(data, quick):
    x, y, subjects = data

    class Fail(Callback):
        def on_grad_computed(self, net, **kwargs):
            raise RuntimeError("out of memory")

    clf = CensoredEEGClassifier(callbacks=[("fail", Fail())], **quick)
    with pytest.raises(RuntimeError, match="out of memory"):
        clf.fit(x, y, subjects)
    assert clf.module_.final_layer._forward_pre_hooks
    clf.set_params(callbacks__fail=None, penalty=None)
    assert not clf.module_.final_layer._forward_pre_hooks
    clf.partial_fit(x, y, subjects=subjects)


def test_new_learning_rate_and_network(data, paper):
    x, y, subjects = data
    clf = _fit(data, paper)
    clf.set_params(lr=0.5).partial_fit(x, y, subjects=subjects)
    rates = clf.history[:, "event_lr"]
    np.testing.assert_allclose(rates, [*1e-3 / np.sqrt([1, 2, 3]), *0.5 / np.sqrt([4, 5, 6])])
    clf.set_params(module__F1=8, batch_norm_momentum=0.5).partial_fit(x, y, subjects=subjects)
    assert clf.module_.F1 == 8 and clf.best_epoch_ > 6
    assert clf.module_.bnorm_temporal.momentum == 0.5
