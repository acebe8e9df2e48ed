"""What is kept of a training: the last weights, their average, or those of the best epoch; and when it has failed."""

import hashlib
import math

import torch
from skorch.callbacks import Callback

from braindecode_censor._check import check_size

__all__ = [
    "EMA_DECAY",
    "AverageWeights",
    "BestEpoch",
    "DivergedError",
    "Prune",
    "Pruned",
    "ValidationScore",
    "average_share",
    "has_waited",
]

#: Decay of the exponential moving average of weights: it reaches back about a hundred steps.
EMA_DECAY = 0.99


class DivergedError(ValueError):
    """A training has ended without weights that are worth keeping."""

    def __init__(self, train_loss=None, what="The validation loss was never finite"):
        super().__init__(f"{what}: lower weight or lr, or raise warmup. Last training loss: {train_loss}.")


class Pruned(Exception):
    """A search has stopped a training before its last epoch."""


def has_waited(epoch, best_epoch, patience, first_epoch=0):
    """Tell whether a training has waited long enough for a lower validation loss."""
    return patience is not None and epoch - max(first_epoch, best_epoch or 0) >= patience


def average_share(step, decay=EMA_DECAY):
    """Compute the share of the newest weights in the moving average.

    Parameters
    ----------
    step : int
        Number of the step that made them, from 1.
    decay : float
        Decay of the average in the long run.

    Returns
    -------
    share : float
        ``max(1 / step, 1 - decay)``: the average is the plain mean of all weights so far as these are few,
        so that it never remembers the random weights of the beginning, and an exponential one after that.

    Examples
    --------
    >>> average_share(1), average_share(4), round(average_share(1000), 10)
    (1.0, 0.25, 0.01)
    """
    return max(1 / step, 1 - decay)


class ValidationScore(Callback):
    """Write the balanced accuracy on the validation people to the history, from predictions that are made anyway."""

    def initialize(self):
        """Forget everything."""
        self.counts_, self.score_ = None, math.nan
        return self

    def on_batch_end(self, net, batch=None, training=None, y_pred=None, **kwargs):
        """Count the correct validation trials of every class."""
        if training:
            return
        y = torch.as_tensor(batch[1], device=y_pred.device)
        correct = (y_pred.argmax(1) == y).to(torch.float64)
        if self.counts_ is None:
            self.counts_ = correct.new_zeros(2, y_pred.shape[1])
        self.counts_.index_add_(1, y, torch.stack([correct, torch.ones_like(correct)]))

    def on_epoch_end(self, net, **kwargs):
        """Write the score down."""
        if self.counts_ is None:  # nobody validates
            return
        correct, total = self.counts_[:, self.counts_[1] > 0]
        self.score_, self.counts_ = (correct / total).mean().item(), None
        net.history.record("valid_balanced_accuracy", self.score_)


class BestEpoch(Callback):
    """Watch the validation loss: stop when it does not fall any more, and put the weights of its minimum back.

    Notes
    -----
    Weights are copied as a state dict, because a fitted EEGNet has parametrisations, which cannot be pickled.
    Ties keep the earlier epoch. Training that goes on (``partial_fit``) has to beat the best epoch so far if the same
    trials validate, and starts comparing anew if others do.
    """

    def __init__(self, patience=None, restore=True):
        self.patience = patience
        self.restore = restore

    def __repr__(self):
        return f"BestEpoch(patience={self.patience!r}, restore={self.restore!r})"

    def initialize(self):
        """Forget everything."""
        if self.patience is not None:
            check_size("patience", self.patience)
        self.epoch_, self.loss_, self.score_ = None, math.inf, math.nan
        self.state_ = self.judge_ = None
        self.start_ = 0
        return self

    def on_train_begin(self, net, X=None, **kwargs):
        """Forget what other trials have judged."""
        judge = _digest(X, net.split_[1], net.class_weight_)
        if self.judge_ not in (None, judge):
            self.initialize()
        self.judge_, self.start_ = judge, len(net.history)

    def on_epoch_end(self, net, **kwargs):
        """Compare the epoch with the best one."""
        row = net.history[-1]
        if "valid_loss" not in row:  # nobody validates
            return
        if row["valid_loss"] < self.loss_:
            self.epoch_, self.loss_ = len(net.history), row["valid_loss"]
            self.score_ = row["valid_balanced_accuracy"]
            if self.restore:
                self.state_ = _copy_state(net.module_, self.state_)
        elif has_waited(len(net.history), self.epoch_, self.patience, self.start_):
            net.complete_ = True
            raise KeyboardInterrupt  # how skorch's own callbacks end training

    def on_train_end(self, net, **kwargs):
        """Put the weights of the best epoch back."""
        if not self.restore:
            return
        if self.state_ is not None:
            net.module_.load_state_dict(self.state_)
        elif net.history and "valid_loss" in net.history[-1]:
            raise DivergedError(net.history[-1].get("train_loss"))


class AverageWeights(Callback):
    """Average the weights and the batch-norm statistics over the last steps, and keep the average."""

    def __init__(self, decay=EMA_DECAY):
        self.decay = decay

    def __repr__(self):
        return f"AverageWeights(decay={self.decay!r})"

    def initialize(self):
        """Forget everything."""
        self.state_, self.step_ = None, 0
        return self

    def on_train_begin(self, net, **kwargs):
        """Begin a new average."""
        self.initialize()

    def on_batch_end(self, net, training=None, **kwargs):
        """Take in the weights after a training step."""
        if not training:
            return
        self.step_ += 1
        if self.state_ is None:
            self.state_ = _copy_state(net.module_)
            return
        share = average_share(self.step_, self.decay)
        for name, tensor in net.module_.state_dict().items():
            if tensor.is_floating_point():
                self.state_[name].lerp_(tensor, share)
            else:
                self.state_[name].copy_(tensor)

    def on_train_end(self, net, **kwargs):
        """Give the module its average weights."""
        if self.state_ is not None:
            net.module_.load_state_dict(self.state_)


# Validation trials that are looked at at a time.
_BLOCK = 512


def _copy_state(module, into=None):
    state = module.state_dict()
    if into is None:
        return {name: tensor.clone() for name, tensor in state.items()}
    for name, tensor in state.items():
        into[name].copy_(tensor)
    return into


def _digest(trials, positions, class_weight):
    """Tell losses that can be compared: by every 16th sample, the classes and the weights of the classes."""
    places = torch.as_tensor(positions, device=trials.y.device)
    digest = hashlib.sha256(trials.y[places].cpu().numpy().tobytes())
    for part in places.split(_BLOCK) if len(places) else ():
        digest.update(trials.take(part)[:, :, ::16].cpu().contiguous().numpy().tobytes())
    digest.update(repr(None if class_weight is None else class_weight.tolist()).encode())
    return digest.hexdigest()


class Prune(Callback):
    """Report every epoch to a search, and stop the training when the search says so."""

    def __init__(self, trial):
        self.trial = trial

    def on_epoch_end(self, net, **kwargs):
        """Report the balanced accuracy on the validation people."""
        epoch = len(net.history)
        self.trial.report(net.history[-1, "valid_balanced_accuracy"], epoch)
        if self.trial.should_prune():
            raise Pruned(f"stopped in epoch {epoch}")
