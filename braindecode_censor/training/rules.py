"""Final weights of a training (last, averaged or of the best epoch), early stopping and failures."""

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
    """A training has ended without finite weights or losses."""

    def __init__(self, train_loss=None, message="The validation loss was never finite"):
        super().__init__(f"{message}: lower weight or lr, or raise warmup. Last training loss: {train_loss}.")


class Pruned(Exception):
    """A search has stopped a training before its last epoch."""


def has_waited(epoch, best_epoch, patience, first_epoch=0):
    """Return whether `patience` epochs have passed without a lower validation loss."""
    return patience is not None and epoch - max(first_epoch, best_epoch or 0) >= patience


def average_share(step, decay=EMA_DECAY):
    """Return the weight of the newest parameters in the moving average; `step` counts from 1.

    The average is the plain mean of all parameters so far while these are few, and an exponential one after that.
    """
    return max(1 / step, 1 - decay)


class ValidationScore(Callback):
    """Record the balanced accuracy on the validation subjects, from the predictions of the validation loss."""

    def initialize(self):
        """Reset."""
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
        """Record the score."""
        if self.counts_ is None:  # There is no validation subject.
            return
        correct, total = self.counts_[:, self.counts_[1] > 0]
        self.score_, self.counts_ = (correct / total).mean().item(), None
        net.history.record("valid_balanced_accuracy", self.score_)


class BestEpoch(Callback):
    """Stop when the validation loss no longer falls, and restore the weights of its minimum.

    skorch's ``EarlyStopping`` does not fit: it needs a patience, and resets the best epoch in every ``partial_fit``,
    whereas here epochs of several calls are compared as long as their validation trials are the same.
    """

    def __init__(self, patience=None, restore=True):
        self.patience = patience
        self.restore = restore

    def __repr__(self):
        return f"BestEpoch(patience={self.patience!r}, restore={self.restore!r})"

    def initialize(self):
        """Reset."""
        if self.patience is not None:
            check_size("patience", self.patience)
        self.epoch_, self.loss_, self.score_ = None, math.inf, math.nan
        self.state_ = self.digest_ = None
        self.start_ = 0
        return self

    def on_train_begin(self, net, X=None, **kwargs):
        """Reset if the validation trials have changed."""
        digest = _digest(X, net.split_[1], net.class_weight_)
        if self.digest_ not in (None, digest):
            self.initialize()
        self.digest_, self.start_ = digest, len(net.history)

    def on_epoch_end(self, net, **kwargs):
        """Compare the epoch with the best one."""
        row = net.history[-1]
        if "valid_loss" not in row:  # There is no validation subject.
            return
        if row["valid_loss"] < self.loss_:
            self.epoch_, self.loss_ = len(net.history), row["valid_loss"]
            self.score_ = row["valid_balanced_accuracy"]
            if self.restore:
                self.state_ = _copy_state(net.module_, self.state_)
        elif has_waited(len(net.history), self.epoch_, self.patience, self.start_):
            net.complete_ = True
            raise KeyboardInterrupt  # skorch's own callbacks end training this way.

    def on_train_end(self, net, **kwargs):
        """Restore the weights of the best epoch."""
        if not self.restore:
            return
        if self.state_ is not None:
            net.module_.load_state_dict(self.state_)
        elif net.history and "valid_loss" in net.history[-1]:
            raise DivergedError(net.history[-1].get("train_loss"))


class AverageWeights(Callback):
    """Average the weights and the batch-norm statistics over the last steps; the average is the final state.

    torch's ``AveragedModel`` does not fit: it copies the module together with the hooks of the callbacks on it.
    """

    def __init__(self, decay=EMA_DECAY):
        self.decay = decay

    def __repr__(self):
        return f"AverageWeights(decay={self.decay!r})"

    def initialize(self):
        """Reset."""
        self.state_, self.step_ = None, 0
        return self

    def on_train_begin(self, net, **kwargs):
        """Begin a new average."""
        self.initialize()

    def on_batch_end(self, net, training=None, **kwargs):
        """Add the weights after a training step."""
        if not training:
            return
        self.step_ += 1
        if self.state_ is None:
            self.state_ = _copy_state(net.module_)
            return
        weight = average_share(self.step_, self.decay)
        for name, tensor in net.module_.state_dict().items():
            if tensor.is_floating_point():
                self.state_[name].lerp_(tensor, weight)
            else:
                self.state_[name].copy_(tensor)

    def on_train_end(self, net, **kwargs):
        """Give the module its average weights."""
        if self.state_ is not None:
            net.module_.load_state_dict(self.state_)


def _copy_state(module, into=None):
    state = module.state_dict()
    if into is None:
        return {name: tensor.clone() for name, tensor in state.items()}
    for name, tensor in state.items():
        into[name].copy_(tensor)
    return into


def _digest(trials, positions, class_weight):
    """Return a digest of validation trials (every 16th sample) and class weights: equal ones have comparable losses."""
    positions = torch.as_tensor(positions, device=trials.y.device)
    digest = hashlib.sha256(trials.y[positions].cpu().numpy())
    for block in positions.split(512) if len(positions) else ():
        digest.update(trials.take(block)[:, :, ::16].cpu().contiguous().numpy())
    digest.update(repr(None if class_weight is None else class_weight.tolist()).encode())
    return digest.hexdigest()


class Prune(Callback):
    """Report every epoch to a search, and stop the training when the search says so."""

    def __init__(self, trial):
        self.trial = trial

    def on_epoch_end(self, net, **kwargs):
        """Report the balanced accuracy on the validation subjects."""
        epoch = len(net.history)
        self.trial.report(net.history[-1, "valid_balanced_accuracy"], epoch)
        if self.trial.should_prune():
            raise Pruned(f"stopped in epoch {epoch}")
