"""Model selection on the validation subject: the epoch of minimum validation loss."""

import hashlib
import math

import torch
from skorch.callbacks import Callback

from braindecode_censor._check import check_size

__all__ = ["BestEpoch", "DivergedError", "Prune", "Pruned"]


class DivergedError(ValueError):
    """No epoch of a training had a finite validation loss, so there is nothing to keep.

    Parameters
    ----------
    train_loss : float or None
        The training loss of the last epoch.
    """

    def __init__(self, train_loss=None):
        super().__init__(
            "The validation loss was never finite: lower weight or lr, or raise warmup. "
            f"Last training loss: {train_loss}."
        )


class Pruned(Exception):
    """A search has stopped a training before its last epoch."""


class BestEpoch(Callback):
    """Keep the weights of the epoch of minimum validation loss and put them back when training ends.

    Parameters
    ----------
    patience : int or None
        Stop after this many epochs without a new minimum; None trains all epochs.

    Attributes
    ----------
    epoch_ : int or None
        The best epoch so far, counted from 1.
    loss_, score_ : float
        Its validation loss, and its balanced accuracy on the validation trials.

    Notes
    -----
    Weights are copied as a state dict, never pickled or deep-copied: a fitted EEGNet has parametrisations,
    which can be neither. Ties keep the earlier epoch. ``valid_balanced_accuracy`` is written to the history
    from the predictions that validation makes anyway. Training that goes on (``partial_fit``) has to beat the
    best epoch so far if the same trials validate, and starts comparing anew if others do.
    """

    def __init__(self, patience=None):
        self.patience = patience

    def __repr__(self):
        return f"BestEpoch(patience={self.patience!r})"

    def initialize(self):
        """Forget everything.

        Returns
        -------
        self : BestEpoch
            The callback.
        """
        if self.patience is not None:
            check_size("patience", self.patience)
        self.epoch_, self.loss_, self.score_ = None, math.inf, math.nan
        self.state_ = self.counts_ = self.judge_ = None
        self.start_ = 0
        return self

    def on_train_begin(self, net, X=None, **kwargs):
        """Forget what other trials have judged.

        Parameters
        ----------
        net : NeuralNet
            The net.
        X : Trials
            All trials of this training.
        **kwargs
            Ignored.
        """
        judge = _digest(X, net.split_[1], net.class_weight_)
        if self.judge_ not in (None, judge):
            self.initialize()
        self.judge_, self.start_ = judge, len(net.history)

    def on_batch_end(self, net, batch=None, training=None, y_pred=None, **kwargs):
        """Count the correct validation trials of every class.

        Parameters
        ----------
        net : NeuralNet
            The net.
        batch : tuple
            Signals and classes.
        training : bool
            Whether this was a training batch.
        y_pred : Tensor of shape (n, n_classes)
            Logits.
        **kwargs
            Ignored.
        """
        if training:
            return
        y = torch.as_tensor(batch[1], device=y_pred.device)
        correct = (y_pred.argmax(1) == y).to(torch.float64)
        if self.counts_ is None:
            self.counts_ = correct.new_zeros(2, y_pred.shape[1])
        self.counts_.index_add_(1, y, torch.stack([correct, torch.ones_like(correct)]))

    def on_epoch_end(self, net, **kwargs):
        """Compare the epoch with the best one.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        if self.counts_ is None:  # no validation trials
            return
        correct, total = self.counts_[:, self.counts_[1] > 0]
        score = (correct / total).mean().item()
        self.counts_ = None
        net.history.record("valid_balanced_accuracy", score)
        epoch, loss = len(net.history), net.history[-1, "valid_loss"]
        if loss < self.loss_:
            self.epoch_, self.loss_, self.score_ = epoch, loss, score
            self._keep(net.module_.state_dict())
        elif self.patience is not None and epoch - max(self.start_, self.epoch_ or 0) >= self.patience:
            raise KeyboardInterrupt  # how skorch's own callbacks end training

    def on_train_end(self, net, **kwargs):
        """Put the weights of the best epoch back.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        if self.state_ is not None:
            net.module_.load_state_dict(self.state_)
        elif net.history and "valid_loss" in net.history[-1]:
            raise DivergedError(net.history[-1].get("train_loss"))

    def _keep(self, state):
        if self.state_ is None:
            self.state_ = {name: tensor.clone() for name, tensor in state.items()}
            return
        for name, tensor in state.items():
            self.state_[name].copy_(tensor)


def _digest(trials, positions, class_weight):
    """Tell losses that can be compared: by every 16th sample, the classes and the weights of the classes."""
    places = torch.as_tensor(positions, device=trials.x.device)
    digest = hashlib.sha256(trials.y[places].cpu().numpy().tobytes())
    digest.update(trials.x[places, :, ::16].cpu().contiguous().numpy().tobytes())
    digest.update(repr(None if class_weight is None else class_weight.tolist()).encode())
    return digest.hexdigest()


class Prune(Callback):
    """Report every epoch to a search, and stop the training when the search says so.

    Parameters
    ----------
    trial : optuna.Trial
        The trial that is being trained; anything with ``report`` and ``should_prune`` will do.
    """

    def __init__(self, trial):
        self.trial = trial

    def on_epoch_end(self, net, **kwargs):
        """Report the balanced accuracy on the validation subject.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        epoch = len(net.history)
        self.trial.report(net.history[-1, "valid_balanced_accuracy"], epoch)
        if self.trial.should_prune():
            raise Pruned(f"stopped in epoch {epoch}")
