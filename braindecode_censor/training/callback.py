"""Censoring as a skorch callback, which changes neither module nor loss nor optimizer of the net."""

import hashlib
import inspect
import sys

import numpy as np
import torch
from braindecode.augmentation import Compose, Mixup, SegmentationReconstruction
from skorch.callbacks import Callback
from skorch.utils import to_tensor
from torch import nn

from braindecode_censor._check import (
    PlainAttributes,
    check_choice,
    check_complete,
    check_finite_number,
    check_keywords,
    check_parameters,
    check_positive,
    check_size,
    check_word,
    optional,
)
from braindecode_censor.penalties.modes import MODES
from braindecode_censor.training.censoring import CensoringStep, build_penalty, warm_up
from braindecode_censor.training.layers import find_layer, is_code, no_code_error
from braindecode_censor.training.monitor import EpochMonitor
from braindecode_censor.trials.subject_labels import LabelTap, find_labels

__all__ = ["Censor"]

_CONSTRAINTS = {
    "mode": (check_choice, MODES),
    "weight": (check_finite_number,),
    "layer": (check_word,),
    "key": (check_word,),
    "warmup": (check_size, 0),
    "critic_lr": (check_positive,),
    "critic_steps": (check_size,),
    "name": (optional(check_word),),
    "random_state": (check_size, 0),
}


class Censor(PlainAttributes, Callback):
    r"""Add a censoring penalty to the training of any Braindecode classifier.

    The latent code z is what enters the module's last layer. For every training batch the penalty's gradient in z,
    times `weight`, is added to the gradient that reaches z, which equals training on ``task loss + weight * penalty``,
    and the critic (if the penalty has one) takes a step on the detached z.
    The net's own loss stays the pure task loss, so early stopping and the history keep their meaning.

    Parameters
    ----------
    method : {"adv", "mige", "mmd", "pairmmd", "began"} or nn.Module
        Censoring method, or a penalty made by :func:`~braindecode_censor.make_penalty`.
    mode : {"marginal", "conditional", "complementary"}
        Independence that is enforced: of z and the subject; of both given the class; of one half of z and the
        subject.
    weight : float
        The paper's λ. 0 only monitors; with a negative one z reveals the subject.
    layer : str
        Name of the layer whose input is z.
    key : str
        Label to censor, read from ``description[key]`` of a Braindecode ``BaseConcatDataset`` and ``metadata[key]``
        of MNE Epochs. Combine two callbacks to censor subject and session.
    subjects : array-like of shape (n_trials,) or None
        Labels of arrays, one per trial of the X of ``fit``.
    warmup : int
        Epochs over which λ rises linearly from 0; 0 starts with the full weight.
    critic_lr : float
        Learning rate of the critic's Adam.
    critic_steps : int
        Critic steps per batch; the penalty is computed before the last of them.
    name : str or None
        Prefix of the history's columns; None takes `key`.
    random_state : int
        Seed of the critic and of random pairs. The net draws the same numbers as without the callback.
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
    Augmentation works if every transform changes one trial at a time, as most of Braindecode's do. ``Mixup`` and
    ``SegmentationReconstruction`` join trials of several subjects, so they raise an error.

    Logged per epoch: ``subject_penalty`` (mean over batches; for MIGE a surrogate whose gradient alone has a
    meaning), ``subject_critic_loss``, the penalty's diagnostics, of which ``subject_accuracy`` is the
    critic's accuracy, and beside it ``subject_chance``, the share of the most frequent subject.

    Examples
    --------
    >>> from braindecode import EEGClassifier
    >>> net = EEGClassifier("EEGNet", callbacks=[Censor("mmd", mode="conditional", weight=0.3)])
    """

    def __init__(
        self,
        method="mmd",
        mode="conditional",
        weight=0.3,
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
        check_keywords("Censor", options)
        self.method = method
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
        self.options = options

    def __repr__(self):
        # MOABB stores results under a hash of this text, so it must differ between configurations.
        shown = {name: _show(value) for name, value in sorted(self.get_params().items())}
        return f"Censor({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def get_params(self, deep=True):
        """Return the parameters, among them the options of the penalty.

        Parameters
        ----------
        deep : bool
            Ignored.

        Returns
        -------
        params : dict of str to object
            Arguments of the constructor.
        """
        return {name: getattr(self, name) for name in _OWN_PARAMETERS} | self.options

    def set_params(self, **params):
        """Set parameters; names that the callback does not have are options of the penalty.

        Parameters
        ----------
        **params
            Names and values.

        Returns
        -------
        self : Censor
            The callback.
        """
        options = {name: value for name, value in params.items() if name not in _OWN_PARAMETERS}
        check_keywords("Censor", options)
        self.options = self.options | options
        for name in params.keys() - options.keys():
            setattr(self, name, params[name])
        return self

    def initialize(self):
        """Remove the critic and all other fitted attributes.

        Returns
        -------
        self : Censor
            The callback.
        """
        self._unhook()  # A training that failed has left its hook.
        self.step_ = self.labels_ = None
        self.armed_ = False
        return self

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        """Find the labels, wrap the loader, hook the layer."""
        self._check_parameters(net)
        subjects = None if self.subjects is None else np.asarray(self.subjects)
        labels = find_labels(X, self.key)
        if subjects is None and labels is None:
            raise ValueError(
                f"Censor found no {self.key} labels in the data. Arrays carry none: pass "
                f"Censor(..., subjects=labels) with one label per trial, or use MNE Epochs with "
                f"metadata[{self.key!r}], a Braindecode dataset with description[{self.key!r}], or "
                "CensoredEEGClassifier.fit(X, y, subjects=labels)."
            )
        _check_transforms(net)
        LabelTap(net, self, subjects, labels, self.key, X)
        self.n_classes_ = getattr(net.module_, "n_outputs", None)
        self._unhook()
        hook = self._on_forward
        if "torch._dynamo" in sys.modules:  # A compiled module must not take the penalty into its graph.
            hook = torch.compiler.disable(hook)
        self.hook_ = find_layer(net.module_, self.layer).register_forward_pre_hook(hook)

    def on_epoch_begin(self, net, **kwargs):
        """Set the weight of the epoch and reset the monitor."""
        if self.n_classes_ is None:
            self.n_classes_ = len(net.classes_)
        self.weight_ = warm_up(self.weight, len(net.history) - 1, self.warmup)
        self.monitor_ = EpochMonitor()

    def on_batch_begin(self, net, batch=None, training=None, **kwargs):
        """Store the classes of the batch."""
        self.armed_, self.has_seen_ = bool(training), False
        if training:
            if isinstance(batch[1], (tuple, list)):
                raise ValueError(f"The batches' classes are mixed targets: {_MIXES_SUBJECTS}")
            self.y_ = torch.as_tensor(batch[1], dtype=torch.int64, device=net.device)
            self.s_ = self.s_.to(net.device)

    def on_batch_end(self, net, batch=None, training=None, **kwargs):
        """Stop reacting to forward passes; raise if the layer was never called."""
        self.armed_ = False
        if training and not self.has_seen_:
            self._unhook()
            raise no_code_error(net.module_, self.layer, to_tensor(batch[0], net.device))

    def on_epoch_end(self, net, **kwargs):
        """Record the numbers of the epoch."""
        if self.step_ is None:  # There was no batch, e.g. because the only one was dropped.
            return
        for name, value in self.monitor_.report(self.step_.penalty).items():
            net.history.record(f"{self._prefix}_{name}", value)

    def on_train_end(self, net, **kwargs):
        """Remove the hook from the module."""
        self._unhook()
        self.monitor_ = None

    def _on_forward(self, layer, inputs):
        """Add the penalty's gradient, times the weight, to the gradient that will reach z."""
        if not (self.armed_ and torch.is_grad_enabled() and is_code(inputs, len(self.s_))):
            return
        self.has_seen_ = True
        z = inputs[0]
        code = z.detach().flatten(1)
        code = code.float() if code.dtype in (torch.float16, torch.bfloat16) else code
        if self.step_ is None:
            self.step_ = self._build(code)
        needs_gradient = self.weight_ != 0 and z.requires_grad
        gradient, numbers = self.step_(code, self.s_, self.y_, needs_gradient)
        self.monitor_.add(numbers, code, self.s_, self.y_)
        if needs_gradient:
            gradient = (self.weight_ * gradient).reshape(z.shape).to(z.dtype)
            z.register_hook(lambda task_gradient: task_gradient + gradient)

    def _build(self, z):
        """Return penalty and critic for latent codes like z."""
        sizes = {"n_features": z.shape[1], "n_subjects": len(self.labels_), "n_classes": self.n_classes_}
        penalty = build_penalty(self.method, z, self.random_state, mode=self.mode, **sizes, **self.options)
        return CensoringStep(penalty, self.critic_lr, self.critic_steps, self.random_state)

    @property
    def _prefix(self):
        return self.name or self.key

    def receive(self, labels):
        """Store the labels of all training trials and return them as integers from 0.

        Parameters
        ----------
        labels : ndarray of shape (n_trials,)
            Labels of the user.

        Returns
        -------
        s : ndarray of shape (n_trials,)
            Encoded labels.
        """
        unique_labels, s = np.unique(check_complete(f"{self.key}s", labels), return_inverse=True)
        if len(unique_labels) < 2:
            raise ValueError(
                f"{self.key}s: all {len(labels)} training trials belong to {unique_labels.tolist()}; censoring "
                "needs at least two subjects beside the validation subject."
            )
        if self.labels_ is not None and not np.array_equal(unique_labels, self.labels_):
            self.step_ = None  # The critic of other subjects is of no use.
        self.labels_ = unique_labels
        return s

    def deliver(self, s):
        """Store the labels of the next batch.

        Parameters
        ----------
        s : Tensor of shape (n,)
            Encoded labels.
        """
        self.s_ = s

    def _unhook(self):
        if getattr(self, "hook_", None) is not None:
            self.hook_.remove()
        self.hook_ = None

    def _check_parameters(self, net):
        check_parameters(self, _CONSTRAINTS)
        if isinstance(self.method, str):
            from braindecode_censor.penalties.options import options_of

            check_keywords("Censor", self.options, options_of(self.method))
        censors = [callback for _, callback in net.callbacks_ if isinstance(callback, Censor)]
        if any(censor._prefix == self._prefix and censor is not self for censor in censors):
            raise ValueError(
                f"name={self.name!r}: two Censor callbacks write to the history as {self._prefix!r}; give "
                "one of them another name=."
            )


_OWN_PARAMETERS = [
    name
    for name, parameter in inspect.signature(Censor).parameters.items()
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD
]
_MIXES_SUBJECTS = (
    "a trial mixed from those of several subjects has no subject to censor. Remove Mixup and "
    "SegmentationReconstruction; transforms that change one trial at a time (ChannelsDropout, GaussianNoise, "
    "TimeReverse, ...) keep its subject."
)


def _check_transforms(net):
    """Raise for an augmentation that mixes trials of several subjects."""
    transforms = [net.get_params_for("iterator_train").get("transforms")]
    while transforms:
        transform = transforms.pop()
        if isinstance(transform, (list, tuple)):
            transforms += transform
        elif isinstance(transform, Compose):
            transforms += transform.transforms
        elif isinstance(transform, (Mixup, SegmentationReconstruction)):
            raise ValueError(
                f"iterator_train__transforms holds {type(transform).__name__}: {_MIXES_SUBJECTS}"
            )


def _show(value):
    """Return a text that is equal for equal values and different for different ones."""
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
