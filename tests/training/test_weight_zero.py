"""Weight 0 trains the same weights as a plain EEGClassifier, and a seed determines all numbers."""

import numpy as np
import pytest
import torch
from braindecode import EEGClassifier
from rhythms import METHODS
from skorch.callbacks import EarlyStopping, LRScheduler
from skorch.helper import predefined_split
from torch.utils.data import TensorDataset

from braindecode_censor import PAPER, Censor, CensoredEEGClassifier
from braindecode_censor.trials.normalizations import zscore

MODULE = {"module__F1": 4, "module__D": 1, "module__final_layer_with_constraint": True}


def _weights(net):
    return {name: tensor.clone() for name, tensor in net.module_.state_dict().items()}


def _assert_same(one, two):
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def _history(net, names):
    return [[row[name] for row in net.history] for name in names]


def _plain(data, callbacks, seed=0):
    x, y, _ = data
    torch.manual_seed(seed)
    net = EEGClassifier("EEGNet", max_epochs=3, batch_size=32, verbose=0, callbacks=callbacks, **MODULE)
    return net.fit(x, y)


@pytest.fixture(scope="module")
def plain(data):
    return _plain(data, None)


@pytest.mark.parametrize("method", ["adv", "mmd"])
def test_callback_with_weight_zero_changes_nothing(data, plain, method):
    watched = _plain(data, [Censor(method, "marginal", weight=0, subjects=data[2])])
    _assert_same(_weights(plain), _weights(watched))
    names = ("train_loss", "valid_loss", "valid_acc")
    assert _history(plain, names) == _history(watched, names)
    assert np.array_equal(plain.predict_proba(data[0]), watched.predict_proba(data[0]))
    assert all(np.isfinite(watched.history[:, "subject_penalty"]))


def test_estimator_with_weight_zero_is_a_plain_classifier(data):
    """The protocol written out with nothing of ours: stock loader, loss, scheduler, early stopping."""
    x, y, subjects = data
    options = {**PAPER, "weight": 0, "max_epochs": 6, "batch_size": 32, **MODULE}
    ours = CensoredEEGClassifier(penalty="adv", sampling="shuffle", fast=False, **options)
    ours.fit(x, y, subjects=subjects)
    assert ours.valid_subject_ == 1
    x = torch.as_tensor(zscore(x), dtype=torch.float32)
    train, valid = subjects != 1, subjects == 1
    counts = np.bincount(y[train])
    weight = torch.tensor((1 / counts) / (1 / counts).sum(), dtype=torch.float32)
    torch.manual_seed(0)
    plain = EEGClassifier(
        "EEGNet",
        criterion__weight=weight,
        optimizer=torch.optim.AdamW,
        lr=1e-3,
        max_epochs=6,
        batch_size=32,
        iterator_valid__batch_size=512,
        train_split=predefined_split(TensorDataset(x[valid], torch.as_tensor(y[valid]))),
        callbacks=[
            LRScheduler("LambdaLR", lr_lambda=lambda epoch: 1 / np.sqrt(epoch + 1)),
            EarlyStopping(patience=100, threshold=0, load_best=True),
        ],
        module__batch_norm_momentum=0.1,
        verbose=0,
        **MODULE,
    ).fit(x[train].numpy(), y[train])
    _assert_same(_weights(ours), _weights(plain))
    names = ("train_loss", "valid_loss")
    assert _history(ours, names) == _history(plain, names)
    assert np.array_equal(ours.predict_proba(data[0]), plain.predict_proba(x.numpy()))
    # The learning rate is the paper's, not just the same as above.
    np.testing.assert_allclose(ours.history[:, "event_lr"], 1e-3 / np.sqrt(np.arange(1, 7)))


@pytest.mark.parametrize(
    ("method", "mode"),
    [*zip(METHODS, ["marginal"] * 5), ("pairmmd", "complementary"), ("adv", "conditional")],
)
def test_seed_determines_the_result(data, quick, method, mode):

    def fit(seed):
        clf = CensoredEEGClassifier(
            penalty=method, censoring=mode, random_state=seed, **{**quick, "max_epochs": 2}
        )
        return clf.fit(*data)

    state = torch.get_rng_state()
    first = fit(0)
    assert torch.equal(state, torch.get_rng_state()), "a fit must leave torch's generator as it was"
    torch.rand(7)  # what happened before must not matter
    again = fit(0)
    _assert_same(_weights(first), _weights(again))
    assert first.history[:, "subject_penalty"] == again.history[:, "subject_penalty"]
    if mode == "marginal":
        other = fit(1)
        assert not torch.equal(first.module_.conv_temporal.weight, other.module_.conv_temporal.weight)
