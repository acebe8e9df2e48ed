"""Trials and their moments are prepared once per fit, which changes nothing but rounding."""

import gc
import weakref

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback
from torch.utils.data import Subset

from braindecode_censor import PAPER, CensoredEEGClassifier
from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.training import protocol
from braindecode_censor.trials.dataset import TrialLoader, Trials

LONG = {**PAPER, "max_epochs": 10, "batch_size": 32, "module__F1": 4, "module__D": 1, "penalty": None}


def test_moments_table_changes_rounding_only(data, monkeypatch):
    with_table = CensoredEEGClassifier(**{**LONG, "penalty": "mmd"}).fit(*data)
    monkeypatch.setattr(protocol, "_MAX_MOMENTS_BYTES", 0)
    by_batch = CensoredEEGClassifier(**{**LONG, "penalty": "mmd"}).fit(*data)
    losses = [clf.history[:, "train_loss"] for clf in (with_table, by_batch)]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    assert losses[0] != losses[1], "both took the same way"
    np.testing.assert_allclose(with_table.predict_proba(data[0]), by_batch.predict_proba(data[0]), atol=1e-3)


def test_moments_of_last_batch_only():
    x = torch.randn(6, 2, 40)
    trials = Trials(x)
    model = FastEEGNet(2, 2, 40, kernel_length=8)
    trials.compute_moments(model.lag_moments, np.array([1, 3, 4]))
    assert trials.moments_of(x) is None
    batch, _ = trials[[4, 1]]
    torch.testing.assert_close(trials.moments_of(batch), model.lag_moments(x[[4, 1]]))
    assert trials.moments_of(batch.clone()) is None, "a copy may be moved or augmented"
    later, _ = trials[[3]]
    assert trials.moments_of(batch) is None
    later.mul_(2.0)
    assert trials.moments_of(later) is None, "changed in place"


class Amplify(Callback):
    def on_batch_begin(self, net, batch=None, training=None, **kwargs):
        if training:
            batch[0].mul_(3.0)


def test_augmentation_by_a_callback_reaches_batch_statistics(data):
    # The last epoch is compared, because rounding may change which one is best.
    options = {**LONG, "keep": "last", "callbacks": [("amplify", Amplify())]}
    fast, stock = (CensoredEEGClassifier(fast=fast, **options).fit(*data) for fast in (True, False))
    assert [type(clf.module_).__name__ for clf in (fast, stock)] == ["FastEEGNet", "EEGNet"]
    np.testing.assert_allclose(fast.history[:, "train_loss"], stock.history[:, "train_loss"], rtol=1e-3)
    variances = [clf.module_.bnorm_temporal.running_var for clf in (fast, stock)]
    torch.testing.assert_close(*variances, rtol=1e-3, atol=0)


def test_fitted_estimator_holds_no_data(data):
    references = []

    class Remember(Callback):
        def on_train_begin(self, net, X=None, **kwargs):
            references.append(weakref.ref(X))

    clf = CensoredEEGClassifier(callbacks=[Remember()], **LONG).fit(*data)
    gc.collect()
    assert references[0]() is None
    assert clf.trials_ is None


def test_loader_fetches_batches_of_a_subset():
    x, y = torch.randn(10, 2, 5), torch.arange(10)
    loader = TrialLoader(Subset(Trials(x, y), [2, 4, 6, 8, 9]), batch_size=3)
    batches = list(loader)
    assert torch.equal(torch.cat([xb for xb, _ in batches]), x[[2, 4, 6, 8, 9]])
    assert [yb.tolist() for _, yb in batches] == [[2, 4, 6], [8, 9]]
    one, label = Trials(x, y)[7]
    assert torch.equal(one, x[7])
    assert label == 7


def test_history_holds_mean_of_batch_losses(data, quick):
    clf = CensoredEEGClassifier(penalty=None, valid_subject="rotate", **quick).fit(*data)
    row = clf.history[-1]
    assert {"train_loss_best", "valid_loss_best", "valid_batch_count", "dur"} <= set(row)
    sizes = clf.history[-1, "batches", :, "train_batch_size"]
    losses = clf.history[-1, "batches", :, "train_loss"]
    assert row["train_loss"] == pytest.approx(np.average(losses, weights=sizes))
