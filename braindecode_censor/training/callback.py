"""Censoring as one skorch callback: the module, the loss and the optimiser of the net stay as they are."""

import hashlib

import numpy as np
import torch
from skorch.callbacks import Callback
from torch import nn

from braindecode_censor._check import check_complete, check_positive, check_size
from braindecode_censor.training.censoring import CensoringStep, EpochMonitor, build_penalty
from braindecode_censor.trials.subject_labels import LabelTap, find_labels

__all__ = ["Censor"]


class Censor(Callback):
    r"""Add a censoring penalty to the training of any Braindecode classifier.

    The latent code z is what enters the module's last layer. For every training batch the penalty's gradient in z,
    times `weight`, is added to the gradient that reaches z, which equals training on ``task loss + weight * penalty``,
    and the critic (if the penalty has one) takes a step on the detached z.
    The net's own loss stays the pure task loss, so early stopping and the history keep their meaning.

    Parameters
    ----------
    penalty : {"adv", "mige", "mmd", "pairmmd", "began"} or nn.Module
        Method, or a penalty made by :func:`~braindecode_censor.make_penalty`.
    mode : {"marginal", "conditional", "complementary"}
        What z must not depend on: the subject; the subject given the class; the subject in one half only.
    weight : float
        The paper's λ. 0 changes nothing in the training and only monitors.
    layer : str
        Name of the layer whose input is z.
    key : str
        Which label to censor: looked up in ``description[key]`` of a Braindecode ``BaseConcatDataset`` and
        ``metadata[key]`` of MNE Epochs. Combine two callbacks to censor subject and session.
    subjects : array-like of shape (n_trials,) or None
        The labels, one per trial of the X given to ``fit``, for arrays, which carry none.
    warmup : int
        Epochs over which λ rises linearly from 0; 0 starts with the full weight.
    critic_lr : float
        Learning rate of the critic's Adam.
    critic_steps : int
        Critic steps per batch; the penalty is that of the critic before the last of them.
    name : str or None
        Prefix of the history's columns; None takes `key`.
    random_state : int
        Seed of the critic and of random pairs. Their generator is the callback's own: the net draws the same
        numbers as without the callback.
    **options
        Further options of the penalty: reveal, score, reg, lengthscale, pairs, fraction, size, ...

    Attributes
    ----------
    step_ : CensoringStep
        The penalty with its critic and the critic's optimiser, made when the first batch shows how wide z is.
    labels_ : ndarray
        The distinct labels of the training trials; label m is subject m of the penalty.

    Notes
    -----
    Logged per epoch: ``subject_penalty`` (mean over batches; for MIGE a surrogate whose gradient alone has a
    meaning), ``subject_critic_loss``, the penalty's diagnostics, of which ``subject_accuracy`` is the
    critic's accuracy, and beside it ``subject_chance``, the share of the most frequent subject.

    Examples
    --------
    >>> from braindecode import EEGClassifier
    >>> net = EEGClassifier("EEGNet", callbacks=[Censor("mmd", mode="conditional", weight=10.0)])
    """

    def __init__(
        self,
        penalty="mmd",
        mode="marginal",
        weight=1.0,
        *,
        layer="final_layer",
        key="subject",
        subjects=None,
        warmup=0,
        critic_lr=1e-3,
        critic_steps=1,
        name=None,
        random_state=0,
        **options,
    ):
        self.penalty = penalty
        self.mode = mode
        self.weight = weight
        self.layer = layer
        self.key = key
        self.subjects = subjects
        self.warmup = warmup
        self.critic_lr = critic_lr
        self.critic_steps = critic_steps
        self.name = name
        self.random_state = random_state
        self._fixed_ = frozenset(vars(self))
        vars(self).update(options)

    def __repr__(self):
        # MOABB stores results under a hash of this text, so it must tell two settings apart.
        shown = {name: _show(value) for name, value in sorted(self.get_params().items())}
        return f"Censor({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def set_params(self, **params):
        """Set parameters; unlike an estimator's, new names are options of the penalty.

        Parameters
        ----------
        **params
            Names and values.

        Returns
        -------
        self : Censor
            The callback.
        """
        vars(self).update(params)
        return self

    def initialize(self):
        """Forget the critic and everything learnt.

        Returns
        -------
        self : Censor
            The callback.
        """
        self._unhook()  # of a training that failed
        self.step_ = self.labels_ = None
        self.armed_ = False
        return self

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        """Find the labels, tap the loader, hook the layer.

        Parameters
        ----------
        net : NeuralNet
            The net.
        X : object
            What ``fit`` was given.
        y : object
            Ignored.
        **kwargs
            Ignored.
        """
        self._check_parameters(net)
        given = None if self.subjects is None else np.asarray(self.subjects)
        found = find_labels(X, self.key)
        if given is None and found is None:
            raise ValueError(
                f"Censor found no {self.key} labels in the data. Arrays carry none: pass "
                f"Censor(..., subjects=labels) with one label per trial, or use MNE Epochs with "
                f"metadata[{self.key!r}], a Braindecode dataset with description[{self.key!r}], or "
                "CensoredEEGClassifier.fit(X, y, subjects=labels)."
            )
        LabelTap(net, self, (given, found), self.key, X)
        self.n_classes_ = getattr(net.module_, "n_outputs", None)
        self._unhook()
        self.hook_ = _find_layer(net.module_, self.layer).register_forward_pre_hook(self._on_forward)

    def on_epoch_begin(self, net, **kwargs):
        """Set this epoch's weight and clear the sums.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        if self.n_classes_ is None:
            self.n_classes_ = len(net.classes_)
        epoch = len(net.history)
        self.weight_ = self.weight * min(1.0, (epoch - 1) / self.warmup if self.warmup else 1.0)
        self.monitor_ = EpochMonitor()

    def on_batch_begin(self, net, batch=None, training=None, **kwargs):
        """Take the batch's classes.

        Parameters
        ----------
        net : NeuralNet
            The net.
        batch : tuple
            Signals and classes.
        training : bool
            Whether the batch is trained on.
        **kwargs
            Ignored.
        """
        self.armed_ = bool(training)
        if training:
            self.y_ = torch.as_tensor(batch[1], dtype=torch.int64, device=net.device)
            self.s_ = self.s_.to(net.device)

    def on_batch_end(self, net, **kwargs):
        """Let forward passes outside training alone.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        self.armed_ = False

    def on_epoch_end(self, net, **kwargs):
        """Write the epoch's numbers to the history.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        if self.step_ is None:  # not a single batch, e.g. a last one that was dropped
            return
        for name, value in self.monitor_.report(self.step_.penalty).items():
            net.history.record(f"{self._prefix}_{name}", value)

    def on_train_end(self, net, **kwargs):
        """Leave the module as it was.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """
        self._unhook()
        self.monitor_ = None

    # The module may be compiled; the penalty is not part of its graph.
    @torch.compiler.disable
    def _on_forward(self, layer, inputs):
        if not (self.armed_ and torch.is_grad_enabled()):
            return
        z = inputs[0]
        code = z.detach().flatten(1)
        if code.dtype in (torch.float16, torch.bfloat16):  # too coarse for kernels and critics
            code = code.float()
        if self.step_ is None:
            self.step_ = self._build(code)
        pushes = self.weight_ != 0 and z.requires_grad
        gradient, numbers = self.step_(code, self.s_, self.y_, needs_gradient=pushes)
        self.monitor_.add(numbers, code, self.s_, self.y_, gradient, self.step_.labels)
        if pushes:
            _push(z, gradient.reshape(z.shape), self.weight_)

    def _build(self, z):
        sizes = {"n_features": z.shape[1], "n_subjects": len(self.labels_), "n_classes": self.n_classes_}
        options = {name: value for name, value in self.get_params().items() if name not in self._fixed_}
        penalty = build_penalty(self.penalty, z, self.random_state, mode=self.mode, **sizes, **options)
        return CensoringStep(penalty, self.critic_lr, self.critic_steps, self.random_state)

    @property
    def _prefix(self):
        return self.name or self.key

    def receive(self, labels):
        """Take the labels of all training trials.

        Parameters
        ----------
        labels : ndarray of shape (n_trials,)
            As the user gave them.

        Returns
        -------
        codes : ndarray of shape (n_trials,)
            As numbers from 0.
        """
        found, codes = np.unique(check_complete(f"{self.key}s", labels), return_inverse=True)
        if len(found) < 2:
            raise ValueError(
                f"{self.key}s: all {len(labels)} training trials belong to {found.tolist()}; censoring "
                "needs at least two subjects beside the one that validates."
            )
        if self.labels_ is not None and not np.array_equal(found, self.labels_):
            self.step_ = None  # training goes on with other people: the old critic does not know them
        self.labels_ = found
        return codes

    def deliver(self, codes):
        """Take the labels of the next batch.

        Parameters
        ----------
        codes : Tensor of shape (n,)
            As numbers from 0.
        """
        self.s_ = codes

    def _unhook(self):
        if getattr(self, "hook_", None) is not None:
            self.hook_.remove()
        self.hook_ = None

    def _check_parameters(self, net):
        check_positive("weight", self.weight, or_zero=True)
        check_size("warmup", self.warmup, minimum=0)
        check_size("critic_steps", self.critic_steps)
        check_positive("critic_lr", self.critic_lr)
        others = [cb for _, cb in net.callbacks_ if isinstance(cb, Censor) and cb is not self]
        if any(other._prefix == self._prefix for other in others):
            raise ValueError(
                f"name={self.name!r}: two Censor callbacks write to the history as {self._prefix!r}; give "
                "one of them another name=."
            )


def _push(z, addend, weight):
    """Add `weight` times `addend` to the gradient that reaches z."""
    if addend.dtype != z.dtype:  # half precision: not before it is weighed
        addend, weight = (weight * addend).to(z.dtype), 1
    if z.grad_fn is None:
        z.register_hook(lambda grad: torch.add(grad, addend, alpha=weight))
        return
    # A hook of the node that made z takes less time than a hook of z. It comes after these, so who looks at the
    # gradient of z itself sees the task's alone.
    place = z.output_nr

    def push(gradients):
        if gradients[place] is None:  # the loss does not depend on z, and torch takes no gradient for none
            return None
        own = torch.add(gradients[place], addend, alpha=weight)
        return (*gradients[:place], own, *gradients[place + 1 :])

    z.grad_fn.register_prehook(push)


def _find_layer(module, name):
    try:
        return module.get_submodule(name)
    except AttributeError:
        names = [child for child, _ in module.named_children()]
        raise ValueError(f"layer={name!r} is not in {type(module).__name__}; it has {names}.") from None


def _show(value):
    """Write a value so that equal settings look equal and no address or abbreviation hides a difference."""
    if isinstance(value, nn.Module):
        return (
            f"{value!r}:{_digest(b''.join(t.cpu().numpy().tobytes() for t in value.state_dict().values()))}"
        )
    if value is None or isinstance(value, (str, int, float, bool)):
        return repr(value)
    array = np.asarray(value)
    return f"<{array.shape} {_digest(repr(array.tolist()).encode())}>"


def _digest(data):
    return hashlib.sha256(data).hexdigest()[:12]
