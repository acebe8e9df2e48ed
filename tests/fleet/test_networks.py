"""Is a member of a fleet the training that the estimator does alone, whatever the network?"""

import re

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn
from torch.func import vmap

from braindecode_censor import PAPER, CensoredEEGClassifier
from braindecode_censor.fleet import train_fleet
from braindecode_censor.fleet.compat import why_alone
from braindecode_censor.fleet.masks import ExternalMasks, draw_masks, find_dropout_sites, hash_masks
from braindecode_censor.fleet.network import Network
from fleet.folds import Double, data

SIZES = {"n_chans": 3, "n_times": 64, "n_outputs": 2}
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
}
#: Twenty steps, and the last weights.
STEPS = {"max_epochs": None, "max_steps": 20, "valid_subject": None, "keep": "last", "batch_size": 16}


class Undropped(Double):
    """In double precision and without dropout, also where a network has no argument for it."""

    def initialize_module(self):
        super().initialize_module()
        for part in self.module_.modules():
            if isinstance(part, nn.modules.dropout._DropoutNd):
                part.p = 0.0
            if hasattr(part, "att_drop"):
                part.att_drop = 0.0
        return self


def train_both(name, kind=Undropped, **options):
    """Two trainings of a network, without two different people, alone and together; the second has a penalty."""
    X, y, subjects = data(n_subjects=3)
    settings = {**PAPER, **STEPS, "module": name, **NETWORKS[name], **options}
    own = {"penalty": None, "lr": 1e-3}, {"penalty": "adv", "censoring": "conditional", "weight": 0.3}
    tasks = [
        (k, kind(**{**settings, "random_state": k, **one}), np.flatnonzero(subjects != k + 1))
        for k, one in enumerate(own)
    ]
    alone = [clone(clf).fit(X[seen], y[seen], subjects=subjects[seen]) for _, clf, seen in tasks]
    together = {member.key: member for member in train_fleet(tasks, X, y, subjects)}
    return alone, [together[k] for k in range(len(alone))]


def largest_difference(one, other):
    """Between weights and buffers."""
    state = other.module_.state_dict()
    assert state.keys() == one.module_.state_dict().keys()
    return max((state[name] - tensor).abs().max() for name, tensor in one.module_.state_dict().items())


@pytest.mark.parametrize("name", NETWORKS)
def test_equal_to_alone_after_twenty_steps(name):
    """Without and with a penalty, side by side; batch norm's statistics too."""
    alone, members = train_both(name)
    for one, member in zip(alone, members):
        assert member.error is None
        assert one.step_ == member.clf.step_ == 20
        assert largest_difference(one, member.clf) < 1e-8
        columns = [c for c in one.history[0] if c == "train_loss" or c.startswith("subject_")]
        for column in columns:
            np.testing.assert_allclose(member.clf.history[:, column], one.history[:, column], rtol=1e-6)
    assert len(columns) > 2, "the penalty left no trace"
    assert largest_difference(*(member.clf for member in members)) > 1e-3, "the comparison is blind"


@pytest.mark.parametrize("name", NETWORKS)
def test_dropout_is_what_each_would_draw_alone(name):
    """In layers, of whole channels, and within attention: the same masks from the same seed, on a CPU."""
    alone, members = train_both(name, Double, max_steps=3)
    for one, member in zip(alone, members):
        assert largest_difference(one, member.clf) < 1e-8


@pytest.mark.parametrize("name", ["ATCNet", "EEGConformer"])
def test_computed_dropout_is_each_members_own(name):
    """As on a GPU: members differ, may be repeated, and do not depend on who else is there."""
    X, y, subjects = data(n_subjects=3)

    def train(seeds, kind=Double):
        settings = {**PAPER, **STEPS, "max_steps": 2, "penalty": None, "module": name, **NETWORKS[name]}
        tasks = [(seed, kind(**settings, random_state=seed), np.arange(len(y))) for seed in seeds]
        members = train_fleet(tasks, X, y, subjects, masks="hashed")
        return {member.key: member.clf for member in members}

    whole, again, undropped = train([0, 1, 2]), train([1, 0]), train([0], Undropped)
    for seed in (0, 1):
        assert largest_difference(whole[seed], again[seed]) < 1e-9
    assert largest_difference(whole[0], whole[1]) > 1e-3
    assert largest_difference(whole[0], undropped[0]) > 1e-5


def test_masks_of_members_with_equal_weights_differ():
    """Two members that differ in nothing but their seed for dropout."""
    network = Network(nn.Sequential(nn.Dropout(0.5), nn.Flatten(), nn.Linear(192, 2)), "2", 3, 64)
    (place,) = network.sites
    masks = hash_masks(
        torch.tensor([0, 1]), torch.tensor([1, 1]), 0, place.shape(5), place.p, torch.float32
    )
    theta, _ = network.replica_state(network.module)
    z, _ = vmap(lambda mask: network(network.layout.unpack(theta), torch.ones(5, 3, 64), (mask,)))(masks)
    assert z.shape == (2, 5, 192)
    assert set(z.unique().tolist()) == {0.0, 2.0}
    assert 0.4 < (z[0] != z[1]).float().mean() < 0.6


def test_places_of_dropout_in_the_order_of_the_calls():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.first = nn.Dropout(0.25), nn.Dropout2d(0.5)

        def forward(self, x):
            h = self.drop(self.first(x.unsqueeze(-1)).squeeze(-1))
            h = nn.functional.dropout(h.mT, 0.1, self.training)  # lies in memory as before
            heads = self.drop(h.reshape(-1, 32, 3))  # the second time, with two rows per trial
            q = heads.mT.unsqueeze(1)
            return nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.3).sum()

    batches = [torch.randn(n, 3, 64) for n in (2, 3)]
    places = find_dropout_sites(Net(), batches)
    assert [place.p for place in places] == [0.5, 0.25, 0.1, 0.25, 0.3]
    shapes = [(7, 3, 1, 1), (7, 3, 64), (7, 64, 3), (14, 32, 3), (14, 1, 3, 3)]
    assert [place.shape(7) for place in places] == shapes
    assert places[2].order == (0, 2, 1)
    torch.manual_seed(0)
    expected = Net()(batches[1])
    generator = torch.Generator().manual_seed(0)
    masks = [draw_masks([generator], p.shape(3), p.p, torch.float32, p.order)[0] for p in places]
    with ExternalMasks(masks):
        torch.testing.assert_close(Net()(batches[1]), expected)


def test_a_parameter_without_gradient_is_not_decayed():
    class Spare(nn.Module):
        def __init__(self, n_chans, n_times, n_outputs):
            super().__init__()
            self.spare, self.frozen = nn.Parameter(torch.ones(3)), nn.Linear(4, 4)
            self.frozen.requires_grad_(False)
            self.first = nn.Linear(n_chans * n_times, 4)
            self.last = nn.Linear(4, n_outputs)  # not under the usual name, and no penalty asks for it

        def forward(self, x):
            return self.last(self.frozen(self.first(x.flatten(1))))

    alone, (member,) = train_one(Spare, optimizer__weight_decay=0.5, penalty=None)
    assert member.error is None
    assert torch.equal(member.clf.module_.spare, torch.ones(3, dtype=torch.float64))
    assert largest_difference(alone, member.clf) < 1e-8


class _Head(nn.Module):
    """Base of networks that cannot be in a fleet, each for another reason."""

    def __init__(self, n_chans, n_times, n_outputs):
        super().__init__()
        self.first, self.final_layer = nn.Linear(n_chans * n_times, 4), nn.Linear(4, n_outputs)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        return self.final_layer(self.between(self.first(x.flatten(1))))


class Recurrent(_Head):
    """It has a recurrent layer."""

    def __init__(self, n_chans, n_times, n_outputs):
        super().__init__(n_chans, n_times, n_outputs)
        self.lstm = nn.LSTM(4, 4, batch_first=True)

    def between(self, h):
        return self.lstm(h.unsqueeze(1))[0].squeeze(1)


class Deciding(_Head):
    """It looks at values."""

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
            self.seen = 0.9 * self.seen + h.detach().mean()
        return h + 0.0 * self.seen


class Two(_Head):
    """It calls the layer of the code twice."""

    def between(self, h):
        return self.final_layer(h).repeat(1, 2)


REASONS = {
    Recurrent: "Error|differ|another",
    Deciding: "data-dependent control flow",
    Noisy: "random",
    Replacing: "another buffer seen",
    Two: "calls layer 'final_layer' 2 times",
}


def train_one(module, kind=Double, **options):
    """One training alone and in a fleet; with a penalty."""
    X, y, subjects = data(n_subjects=3)
    settings = {**PAPER, **STEPS, "max_steps": 3, "penalty": "mmd", "module": module, "random_state": 0}
    clf = kind(**{**settings, **options})
    alone = clone(clf).fit(X, y, subjects=subjects)
    return alone, list(train_fleet([("key", clf, np.arange(len(y)))], X, y, subjects))


@pytest.mark.parametrize("module", REASONS)
def test_what_cannot_be_in_a_fleet_is_trained_by_itself(module):
    alone, (member,) = train_one(module)
    assert re.search(REASONS[module], member.alone)
    assert member.key == "key"
    assert member.error is None
    assert largest_difference(alone, member.clf) == 0


def test_a_lone_member_that_diverges_is_told():
    X, y, subjects = data(n_subjects=3)
    clf = Double(**{**PAPER, **STEPS, "module": Deciding, "penalty": None, "random_state": 0, "lr": 1e30})
    (member,) = train_fleet([(0, clf, np.arange(len(y)))], X, y, subjects)
    assert "not finite" in member.error


def test_an_architecture_is_tried_once_and_nobodys_numbers_are_used_up(monkeypatch):
    options = {"module": "ShallowFBCSPNet", **NETWORKS["ShallowFBCSPNet"], "module__n_filters_spat": 7}
    before = torch.get_rng_state()
    assert why_alone(CensoredEEGClassifier(**options), SIZES) is None
    assert torch.equal(torch.get_rng_state(), before)

    def refuse(*args):
        raise AssertionError("tried again")

    monkeypatch.setattr("braindecode_censor.fleet.compat._try", refuse)
    assert why_alone(CensoredEEGClassifier(**options, weight=3.0, lr=0.1), SIZES) is None
    with pytest.raises(AssertionError, match="tried again"):
        why_alone(CensoredEEGClassifier(**options), {**SIZES, "n_times": 80})


def test_stock_eegnet_and_another_layer():
    options = {"module__F1": 2, "module__D": 2, "module__drop_prob": 0.25, "layer": "drop_2"}
    for fast in (True, False):
        alone, (member,) = train_one("EEGNet", fast=fast, **options)
        assert member.error is None
        assert largest_difference(alone, member.clf) < 1e-8
