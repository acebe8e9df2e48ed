"""The same trainings twice: one after another by the estimator's own fit, and as members of a fleet."""

import numpy as np
import torch
from rhythms import simulate

from braindecode_censor import PAPER, CensoredEEGClassifier
from braindecode_censor.fleet import train_fleet

# Of the history, what both sides write; the rest are skorch's clocks and counters.
COLUMNS = ("train_loss", "valid_loss", "valid_balanced_accuracy")


class Double(CensoredEEGClassifier):
    """The estimator in double precision, for Braindecode's loader turns signals into single precision."""

    def _to_tensor(self, signals):
        return super()._to_tensor(signals).double()

    def initialize_module(self):
        super().initialize_module()
        self.module_.double()
        return self

    def initialize_criterion(self):
        super().initialize_criterion()
        self.criterion_.double()
        return self

    def infer(self, x, **fit_params):
        return super().infer(x.double(), **fit_params)


def data(**options):
    return simulate(**{"n_subjects": 5, "n_trials": 24, "n_chans": 3, "n_times": 64, **options})


def make(kind=Double, **options):
    defaults = {"max_epochs": 3, "batch_size": 24, "module__F1": 2, "module__D": 2, "module__drop_prob": 0.0}
    return kind(**{**PAPER, **defaults, **options})


def folds(subjects, settings, kind=Double):
    """Tasks of a fleet: setting k leaves out subject k + 1."""
    return [
        (k, make(kind, **setting), np.flatnonzero(subjects != k + 1)) for k, setting in enumerate(settings)
    ]


def train_alone(X, y, subjects, settings, kind=Double):
    found = []
    for _, clf, seen in folds(subjects, settings, kind):
        found.append(clf.fit(X[seen], y[seen], subjects=subjects[seen]))
    return found


def train_together(X, y, subjects, settings, kind=Double, **options):
    members = train_fleet(folds(subjects, settings, kind), X, y, subjects, **options)
    return {member.key: member.clf for member in members}


def assert_equal(together, alone, tolerance):
    """Weights, batch statistics, best epoch, validation score and every column of the history."""
    assert set(together) == set(range(len(alone)))
    for k, one in enumerate(alone):
        other = together[k]
        assert other.best_epoch_ == one.best_epoch_
        np.testing.assert_allclose(other.valid_score_, one.valid_score_, atol=1e-12)
        assert len(other.history) == len(one.history)
        columns = [*COLUMNS, *(name for name in one.history[0] if name.startswith("subject_"))]
        for name in columns:
            np.testing.assert_allclose(
                other.history[:, name],
                one.history[:, name],
                rtol=100 * tolerance,
                atol=tolerance,
                err_msg=name,
            )
        state = other.module_.state_dict()
        for name, tensor in one.module_.state_dict().items():
            torch.testing.assert_close(
                state[name], tensor, rtol=0, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
            )
