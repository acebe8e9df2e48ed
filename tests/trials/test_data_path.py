"""Are trials normalised and their moments taken once per fit, and is the result that of the stock path?"""

import gc
import weakref

import numpy as np
import pytest
import torch
from braindecode import EEGClassifier
from skorch.callbacks import Callback, EarlyStopping, LRScheduler
from skorch.helper import predefined_split
from torch.utils.data import Subset, TensorDataset

from braindecode_censor import PAPER, CensoredEEGClassifier
from braindecode_censor.encoders import eegnet
from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.training import protocol
from braindecode_censor.trials.dataset import TrialLoader, Trials, home
from braindecode_censor.trials.trialwise import zscore

LONG = {**PAPER, "max_epochs": 10, "batch_size": 32, "module__F1": 4, "module__D": 1}


def inverse_sqrt(epoch):
    return (epoch + 1) ** -0.5


def _count(monkeypatch, owner, name):
    """Count the calls of a function, and let them through."""
    calls, function = [], getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **kwargs: calls.append(1) or function(*args, **kwargs))
    return calls


def test_trials_are_normalised_once_and_moments_taken_once(data, monkeypatch):
    normalised = _count(monkeypatch, protocol, "normalize_trials")
    by_batch = _count(monkeypatch, eegnet, "batch_moments")
    by_trial = _count(monkeypatch, eegnet, "lag_moments")
    clf = CensoredEEGClassifier(penalty=None, **LONG)
    clf.fit(*data)
    assert len(normalised) == 1
    assert len(by_trial) == 3, "one trial for the size of the table, then 128 in chunks of 64"
    # What remains are the forward passes of the module's own constructor.
    built = len(by_batch)
    by_batch.clear()
    clf.set_params(max_epochs=20).fit(*data)
    assert len(by_batch) == built, "the number of batches must not matter"


@pytest.mark.parametrize("reason", ["epochs", "memory"])
def test_moments_are_taken_by_batch_where_a_table_does_not_pay(data, monkeypatch, reason):
    if reason == "memory":
        monkeypatch.setattr(protocol, "_LARGEST_TABLE", 1000)
    by_batch = _count(monkeypatch, eegnet, "batch_moments")
    epochs = 3 if reason == "epochs" else 10
    CensoredEEGClassifier(penalty=None, **{**LONG, "max_epochs": epochs}).fit(*data)
    assert len(by_batch) >= 4 * epochs


def test_the_table_changes_nothing_but_rounding(data, monkeypatch):
    table = CensoredEEGClassifier(penalty="mmd", **LONG).fit(*data)
    monkeypatch.setattr(protocol, "_LARGEST_TABLE", 0)
    batch = CensoredEEGClassifier(penalty="mmd", **LONG).fit(*data)
    np.testing.assert_allclose(table.history[:, "train_loss"], batch.history[:, "train_loss"], rtol=1e-4)
    np.testing.assert_allclose(table.predict_proba(data[0]), batch.predict_proba(data[0]), atol=1e-3)


def test_moments_belong_to_the_batch_that_was_fetched_last_and_to_no_other():
    x = torch.randn(6, 2, 40)
    trials = Trials(x)
    assert trials.moments_of(x) is None
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


class Louder(Callback):
    """An augmentation in place, as a user might write it."""

    def on_batch_begin(self, net, batch=None, training=None, **kwargs):
        if training:
            batch[0].mul_(3.0)


def test_an_augmentation_in_a_callback_is_seen_by_the_batch_statistics(data):
    # the last epoch: which one is best may hang on rounding
    options = {**LONG, "keep": "last", "penalty": None, "callbacks": [("louder", Louder())]}
    fast, stock = (CensoredEEGClassifier(fast=fast, **options).fit(*data) for fast in (True, False))
    np.testing.assert_allclose(fast.history[:, "train_loss"], stock.history[:, "train_loss"], rtol=1e-3)
    name = "bnorm_temporal.running_var"
    torch.testing.assert_close(
        fast.module_.state_dict()[name], stock.module_.state_dict()[name], rtol=1e-3, atol=0
    )


def test_a_fitted_estimator_carries_no_data(data, monkeypatch):
    made = []
    monkeypatch.setattr(protocol, "Trials", lambda *args: made.append(weakref.ref(t := Trials(*args))) or t)
    clf = CensoredEEGClassifier(penalty="mmd", **LONG).fit(*data)
    gc.collect()
    assert len(made) == 1
    assert made[0]() is None
    assert clf.trials_ is None


@pytest.mark.parametrize(("nbytes", "device"), [(500, "cuda:0"), (501, "cpu")])
def test_trials_live_on_a_gpu_while_they_fill_half_of_it(monkeypatch, nbytes, device):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 10_000))
    assert home(nbytes, "cuda:0") == torch.device(device)
    assert home(nbytes, "cpu") == torch.device("cpu")


def test_a_batch_is_one_indexing_of_the_resident_tensor():
    x, y = torch.randn(10, 2, 5), torch.arange(10)
    loader = TrialLoader(Subset(Trials(x, y), [2, 4, 6, 8, 9]), batch_size=3)
    batches = list(loader)
    assert torch.equal(torch.cat([xb for xb, _ in batches]), x[[2, 4, 6, 8, 9]])
    assert torch.cat([yb for _, yb in batches]).tolist() == [2, 4, 6, 8, 9]
    assert [len(yb) for _, yb in batches] == [3, 2]
    one, label = Trials(x, y)[7]
    assert torch.equal(one, x[7])
    assert label == 7


def stock_fit(data, valid_subject, max_epochs):
    """Train by the paper's protocol with nothing of ours: stock network, loader, loss, selection."""
    x, y, subjects = data
    x = torch.as_tensor(zscore(x), dtype=torch.float32)
    train, valid = subjects != valid_subject, subjects == valid_subject
    inverse = 1 / np.bincount(y[train])
    torch.manual_seed(0)
    return EEGClassifier(
        "EEGNet",
        criterion__weight=torch.tensor(inverse / inverse.sum(), dtype=torch.float32),
        optimizer=torch.optim.AdamW,
        lr=1e-3,
        max_epochs=max_epochs,
        batch_size=32,
        train_split=predefined_split(TensorDataset(x[valid], torch.as_tensor(y[valid]))),
        callbacks=[
            LRScheduler("LambdaLR", lr_lambda=inverse_sqrt),
            EarlyStopping(patience=max_epochs, threshold=0, load_best=True),
        ],
        module__batch_norm_momentum=0.1,
        module__final_layer_with_constraint=True,
        verbose=0,
    ).fit(x[train].numpy(), y[train])


def test_fast_network_and_resident_data_give_the_stock_scores(data):
    x, y, subjects = data
    ours = CensoredEEGClassifier(
        penalty=None, sampling="shuffle", **{**PAPER, "max_epochs": 10, "batch_size": 32}
    ).fit(*data)
    stock = stock_fit(data, ours.valid_subject_, 10)
    for name in ("train_loss", "valid_loss"):
        np.testing.assert_allclose(ours.history[:, name], stock.history[:, name], rtol=2e-3)
    x = zscore(x)
    np.testing.assert_allclose(ours.predict_proba(x), stock.predict_proba(x), atol=5e-3)
    assert (ours.predict(x) == stock.predict(x)).mean() > 0.98
    assert ours.best_epoch_ == np.argmin(stock.history[:, "valid_loss"]) + 1


def test_the_history_has_what_skorchs_has(data, quick):
    clf = CensoredEEGClassifier(penalty=None, valid_subject="rotate", **quick).fit(*data)
    stock = stock_fit(data, 1, 2)
    assert set(stock.history[-1]) - {"valid_acc", "valid_acc_best"} <= set(clf.history[-1])
    assert clf.history[-1]["batches"][0].keys() == stock.history[-1]["batches"][0].keys()
    sizes = clf.history[-1, "batches", :, "train_batch_size"]
    losses = clf.history[-1, "batches", :, "train_loss"]
    assert clf.history[-1, "train_loss"] == pytest.approx(np.average(losses, weights=sizes))
    assert clf.history[:, "train_loss_best"][0]
