"""The same trainings twice: one after another by the estimator's own fit, and as replicas of a fleet."""

import copy

import numpy as np
import torch
from rhythms import simulate

from braindecode_censor import PAPER, CensoredEEGClassifier
from braindecode_censor.fleet import Replica, train_fleet
from braindecode_censor.fleet.device_trials import DeviceTrials, SubjectStatistics
from braindecode_censor.fleet.group import Group
from braindecode_censor.fleet.masks import ExternalMasks, find_dropout_sites, hash_masks

# Columns of the history that both write; the others are skorch's clocks and counters.
COLUMNS = ("train_loss", "valid_loss", "valid_balanced_accuracy")


class Double(CensoredEEGClassifier):
    """The estimator in double precision, with the dropout masks that a fleet computes from seed and step."""

    def _to_tensor(self, signals):
        # Braindecode's loader turns signals into single precision.
        return super()._to_tensor(signals).double()

    def initialize_module(self):
        super().initialize_module()
        self.module_.double()
        sizes = [self.signal_args_[name] for name in ("n_chans", "n_times")]
        batches = [torch.ones(n, *sizes, dtype=torch.float64) for n in (2, 3)]
        self.sites_ = find_dropout_sites(copy.deepcopy(self.module_).cpu().train(), batches)
        return self

    def initialize_criterion(self):
        super().initialize_criterion()
        self.criterion_.double()
        return self

    def infer(self, x, **fit_params):
        x = x.double()
        if not self.module_.training:
            return super().infer(x, **fit_params)
        numbers = torch.tensor([[self.random_state], [self.step_ + 1]], device=self.device)
        masks = [
            hash_masks(*numbers, k, site.shape(len(x)), site.p, x.dtype)[0]
            for k, site in enumerate(self.sites_)
        ]
        with ExternalMasks(masks):
            return super().infer(x, **fit_params)


def data(**options):
    return simulate(**{"n_subjects": 5, "n_trials": 24, "n_chans": 3, "n_times": 64, **options})


def make(cls=Double, **options):
    defaults = {"max_epochs": 3, "batch_size": 24}
    if "module" not in options:
        defaults |= {"module__F1": 2, "module__D": 2, "module__drop_prob": 0.0}
    return cls(**{**PAPER, **defaults, **options})


def folds(subjects, settings, cls=Double):
    """Tasks of a fleet: setting k leaves out subject k + 1."""
    return [
        (k, make(cls, **setting), np.flatnonzero(subjects != k + 1)) for k, setting in enumerate(settings)
    ]


def fit_each(X, y, subjects, settings, cls=Double):
    return [
        clf.fit(X[train_idx], y[train_idx], subjects=subjects[train_idx])
        for _, clf, train_idx in folds(subjects, settings, cls)
    ]


def fit_fleet(X, y, subjects, settings, cls=Double, **options):
    replicas = train_fleet(folds(subjects, settings, cls), X, y, subjects, **options)
    return {replica.key: replica.clf for replica in replicas}


def make_group(settings, cls=Double):
    X, y, subjects = data()
    statistics = SubjectStatistics(X, subjects)
    replicas = [Replica(*task, statistics, y) for task in folds(subjects, settings, cls)]
    return Group(replicas, DeviceTrials(replicas[0].clf, statistics))


def largest_difference(one, other):
    state = other.module_.state_dict()
    assert state.keys() == one.module_.state_dict().keys()
    return max((state[name] - tensor).abs().max() for name, tensor in one.module_.state_dict().items())


def assert_equal(fleet, singles, tolerance):
    """Compare weights, batch statistics, best epoch, validation score and every column of the history."""
    assert set(fleet) == set(range(len(singles)))
    for k, single in enumerate(singles):
        for name in ("best_epoch_", "step_", "complete_"):
            assert getattr(fleet[k], name) == getattr(single, name), name
        np.testing.assert_allclose(fleet[k].valid_score_, single.valid_score_, atol=1e-12)
        assert len(fleet[k].history) == len(single.history)
        row = single.history[0]
        for name in [name for name in row if name in COLUMNS or name.startswith("subject_")]:
            columns = [clf.history[:, name] for clf in (fleet[k], single)]
            np.testing.assert_allclose(*columns, rtol=100 * tolerance, atol=tolerance, err_msg=name)
        assert largest_difference(fleet[k], single) <= tolerance


def assert_trained_alike(settings, tolerance=1e-9, trials=None, cls=Double, **options):
    """Train one after another and as a fleet, and compare; return the estimators of the former."""
    trials = data() if trials is None else trials
    singles = fit_each(*trials, settings, cls)
    assert_equal(fit_fleet(*trials, settings, cls, **options), singles, tolerance)
    return singles
