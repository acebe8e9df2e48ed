"""Networks other than the fast EEGNet: a replica is the training that the estimator does by itself."""

import re

import numpy as np
import pytest
import torch
from torch import nn

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.fleet.compat import sequential_reason
from braindecode_censor.fleet.masks import ExternalMasks, find_dropout_sites
from fleet.folds import data, fit_each, fit_fleet, largest_difference

#: Small versions of the networks, with the layer of their latent code.
NETWORKS = {
    "ShallowFBCSPNet": {
        "module__n_filters_time": 4,
        "module__n_filters_spat": 4,
        "module__filter_time_length": 9,
        "module__pool_time_length": 16,
        "module__pool_time_stride": 8,
    },
    "Deep4Net": {
        "module__n_filters_time": 3,
        "module__n_filters_spat": 3,
        "module__n_filters_2": 4,
        "module__n_filters_3": 4,
        "module__n_filters_4": 5,
        "module__filter_time_length": 5,
        "module__filter_length_2": 3,
        "module__filter_length_3": 3,
        "module__filter_length_4": 2,
        "module__pool_time_length": 2,
        "module__pool_time_stride": 2,
    },
    "EEGSimpleConv": {
        "module__sfreq": 64,
        "module__resampling_freq": 48,
        "module__feature_maps": 4,
        "module__kernel_size": 4,
    },
    "EEGConformer": {
        "module__n_filters_time": 4,
        "module__filter_time_length": 9,
        "module__pool_time_length": 12,
        "module__pool_time_stride": 8,
        "module__num_layers": 1,
        "module__num_heads": 2,
    },
    "ATCNet": {
        "layer": "final_layer.0",
        "module__sfreq": 64,
        "module__input_window_seconds": 1.0,
        "module__conv_block_n_filters": 2,
        "module__conv_block_kernel_length_1": 8,
        "module__conv_block_kernel_length_2": 4,
        "module__conv_block_pool_size_1": 4,
        "module__conv_block_pool_size_2": 2,
        "module__n_windows": 2,
        "module__head_dim": 2,
        "module__tcn_depth": 1,
        "module__tcn_kernel_size": 2,
    },
    "CTNet": {
        "module__n_filters_time": 2,
        "module__embed_dim": 4,
        "module__kernel_size": 8,
        "module__depth_multiplier": 2,
        "module__pool_size_1": 4,
        "module__pool_size_2": 4,
        "module__num_heads": 2,
        "module__num_layers": 1,
    },
    "EEGNet": {"layer": "drop_2", "fast": False, "module__F1": 2, "module__D": 2},
}
#: A few steps, and the last weights.
STEPS = {"max_epochs": None, "max_steps": 8, "valid_subject": None, "keep": "last", "batch_size": 16}


def train_both(options, *settings):
    """Train replicas of one network by the estimator's own fit and in a fleet; each leaves out another subject."""
    trials = data(n_subjects=3)
    settings = [{**STEPS, "random_state": k, **options, **setting} for k, setting in enumerate(settings)]
    fleet = fit_fleet(*trials, settings)
    return fit_each(*trials, settings), [fleet[k] for k in range(len(settings))]


@pytest.mark.parametrize("name", NETWORKS)
def test_replica_equals_single_training(name):
    settings = {"penalty": None}, {"penalty": "adv", "censoring": "conditional", "weight": 0.3}
    singles, fleet = train_both({"module": name, **NETWORKS[name]}, *settings)
    for single, clf in zip(singles, fleet):
        assert single.step_ == clf.step_ == 8
        assert largest_difference(single, clf) < 1e-8
        columns = [c for c in single.history[0] if c == "train_loss" or c.startswith("subject_")]
        for column in columns:
            np.testing.assert_allclose(clf.history[:, column], single.history[:, column], rtol=1e-6)
    assert len(columns) > 2, "the penalty is not in the history"
    assert largest_difference(*fleet) > 1e-3, "the comparison notices nothing"


def test_dropout_sites_in_the_order_of_the_calls():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.first = nn.Dropout(0.25), nn.Dropout2d(0.5)

        def forward(self, x):
            h = self.drop(self.first(x.unsqueeze(-1)).squeeze(-1))
            h = nn.functional.dropout(h.mT, 0.1, self.training)
            heads = self.drop(h.reshape(-1, 32, 3))  # the second time, with two rows per trial
            q = heads.mT.unsqueeze(1)
            return nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.3)

    sites = find_dropout_sites(Net(), [torch.randn(n, 3, 64) for n in (2, 3)])
    assert [site.p for site in sites] == [0.5, 0.25, 0.1, 0.25, 0.3]
    shapes = [(7, 3, 1, 1), (7, 3, 64), (7, 64, 3), (14, 32, 3), (14, 1, 3, 3)]
    assert [site.shape(7) for site in sites] == shapes
    x, masks = torch.randn(7, 3, 64), [torch.rand(shape) for shape in shapes]
    with ExternalMasks(masks):
        actual = Net()(x)
    h = ((x * masks[0].squeeze(-1) * masks[1]).mT * masks[2]).reshape(-1, 32, 3) * masks[3]
    q = h.mT.unsqueeze(1)
    expected = ((q @ q.mT / 32**0.5).softmax(-1) * masks[4]) @ q
    torch.testing.assert_close(actual, expected)


class Spare(nn.Module):
    """Network with a parameter that gets no gradient, a frozen layer, and a last layer of another name."""

    def __init__(self, n_chans, n_times, n_outputs):
        super().__init__()
        self.spare, self.frozen = nn.Parameter(torch.ones(3)), nn.Linear(4, 4)
        self.frozen.requires_grad_(False)
        self.first, self.last = nn.Linear(n_chans * n_times, 4), nn.Linear(4, n_outputs)

    def forward(self, x):
        return self.last(self.frozen(self.first(x.flatten(1))))


def test_parameter_without_gradient_is_not_decayed():
    options = {"module": Spare, "optimizer__weight_decay": 0.5, "penalty": None, "max_steps": 3}
    (single,), (clf,) = train_both(options, {})
    assert torch.equal(clf.module_.spare, torch.ones(3, dtype=torch.float64))
    assert largest_difference(single, clf) < 1e-8


class _Head(nn.Module):
    """Base of networks that cannot be in a fleet, each for another reason."""

    def __init__(self, n_chans, n_times, n_outputs):
        super().__init__()
        self.first, self.final_layer = nn.Linear(n_chans * n_times, 4), nn.Linear(4, n_outputs)
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x):
        return self.final_layer(self.between(self.first(x.flatten(1))))


class Recurrent(_Head):
    def between(self, h):
        return self.lstm(h.unsqueeze(1))[0].squeeze(1)


class Branching(_Head):
    def between(self, h):
        return h if h.mean() > 0 else -h


class Noisy(_Head):
    """It draws random numbers that are not dropout's."""

    def between(self, h):
        return h + 0.1 * torch.randn_like(h) if self.training else h


class Replacing(_Head):
    """It replaces a buffer instead of changing it, which a stack would not notice."""

    def between(self, h):
        if self.training:
            self.mean = 0.9 * self.mean + h.detach().mean()
        return h + 0.0 * self.mean


class Repeating(_Head):
    """It calls the layer of the code twice."""

    def between(self, h):
        return self.final_layer(h).repeat(1, 2)


REASONS = {
    Recurrent: "Error",
    Branching: "data-dependent control flow",
    Noisy: "random",
    Replacing: "another buffer mean",
    Repeating: "calls layer='final_layer' 2 times",
}


@pytest.mark.parametrize("module", REASONS)
def test_unsupported_network_has_a_reason(module):
    X, y, _ = data(n_subjects=3)
    assert re.search(REASONS[module], sequential_reason(CensoredEEGClassifier(module), X, y))


def test_architecture_is_tried_once(monkeypatch):
    X, y, _ = data(n_subjects=3)
    options = {"module": "ShallowFBCSPNet", **NETWORKS["ShallowFBCSPNet"], "module__n_filters_spat": 7}
    before = torch.get_rng_state()
    assert sequential_reason(CensoredEEGClassifier(**options), X, y) is None
    assert torch.equal(torch.get_rng_state(), before), "it used up random numbers"
    monkeypatch.setattr("braindecode_censor.fleet.compat._try", lambda *_: "tried again")
    assert sequential_reason(CensoredEEGClassifier(**options, weight=3.0, lr=0.1), X, y) is None
    assert sequential_reason(CensoredEEGClassifier(**options), X[..., :60], y) == "tried again"
