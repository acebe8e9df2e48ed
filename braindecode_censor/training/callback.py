"""Censoring as one skorch callback: the module, the loss and the optimiser of the net stay as they are."""

import hashlib
import inspect
from numbers import Real

import numpy as np
import torch
from braindecode.augmentation import Compose, Mixup, SegmentationReconstruction
from skorch.callbacks import Callback
from skorch.utils import to_tensor
from torch import nn

from braindecode_censor._check import check_choice, check_complete, check_keywords, check_positive, check_size
from braindecode_censor.penalties.modes import MODES
from braindecode_censor.penalties.options import options_of
from braindecode_censor.training.censoring import CensoringStep, build_penalty, warm_up
from braindecode_censor.training.layers import find_layer, is_code, no_code_error
from braindecode_censor.training.monitor import EpochMonitor
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
    method : {"adv", "mige", "mmd", "pairmmd", "began"} or nn.Module
        Censoring method, or a penalty made by :func:`~braindecode_censor.make_penalty`.
    mode : {"marginal", "conditional", "complementary"}
        What z must not depend on: the subject; the subject given the class; the subject in one half only.
    weight : float
        The paper's λ. 0 changes nothing in the training and only monitors; a negative one makes z reveal the subject.
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
    Augmentation works if every transform changes one trial at a time, as nearly all of Braindecode's do: the trial
    keeps its subject. ``Mixup`` and ``SegmentationReconstruction`` make a trial of several people's, which has no
    subject to censor, so they are refused.

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
        method="mmd",
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
        # MOABB stores results under a hash of this text, so it must tell two settings apart.
        shown = {name: _show(value) for name, value in sorted(self.get_params().items())}
        return f"Censor({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def get_params(self, deep=True):
        """Return the parameters, among them the options of the penalty.

        Parameters
        ----------
        deep : bool
            Ignored; scikit-learn asks for it.

        Returns
        -------
        params : dict of str to object
            What the constructor takes.
        """
        return {name: getattr(self, name) for name in _OWN_PARAMETERS} | self.options

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
        options = {name: value for name, value in params.items() if name not in _OWN_PARAMETERS}
        check_keywords("Censor", options)
        self.options = self.options | options
        for name in params.keys() - options.keys():
            setattr(self, name, params[name])
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
        """Find the labels, tap the loader, hook the layer."""
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
        _check_transforms(net)
        LabelTap(net, self, (given, found), self.key, X)
        self.n_classes_ = getattr(net.module_, "n_outputs", None)
        self._unhook()
        self.hook_ = find_layer(net.module_, self.layer).register_forward_pre_hook(self._on_forward)

    def on_epoch_begin(self, net, **kwargs):
        """Set this epoch's weight and clear the sums."""
        if self.n_classes_ is None:
            self.n_classes_ = len(net.classes_)
        self.weight_ = warm_up(self.weight, len(net.history) - 1, self.warmup)
        self.monitor_ = EpochMonitor()

    def on_batch_begin(self, net, batch=None, training=None, **kwargs):
        """Take the batch's classes."""
        self.armed_, self.has_seen_ = bool(training), False
        if training:
            if isinstance(batch[1], (tuple, list)):
                raise ValueError(f"The batches' classes are mixed targets: {_MIXES_PEOPLE}")
            self.y_ = torch.as_tensor(batch[1], dtype=torch.int64, device=net.device)
            self.s_ = self.s_.to(net.device)

    def on_batch_end(self, net, batch=None, training=None, **kwargs):
        """Let forward passes outside training alone, and complain if the layer was never called."""
        self.armed_ = False
        if training and not self.has_seen_:
            self._unhook()
            raise no_code_error(net.module_, self.layer, to_tensor(batch[0], net.device))

    def on_epoch_end(self, net, **kwargs):
        """Write the epoch's numbers to the history."""
        if self.step_ is None:  # not a single batch, e.g. a last one that was dropped
            return
        for name, value in self.monitor_.report(self.step_.penalty).items():
            net.history.record(f"{self._prefix}_{name}", value)

    def on_train_end(self, net, **kwargs):
        """Leave the module as it was."""
        self._unhook()
        self.monitor_ = None

    # The module may be compiled; the penalty is not part of its graph.
    @torch.compiler.disable
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
        pushes = self.weight_ != 0 and z.requires_grad
        gradient, numbers = self.step_(code, self.s_, self.y_, needs_gradient=pushes)
        self.monitor_.add(numbers, code, self.s_, self.y_)
        if pushes:
            push = (self.weight_ * gradient).reshape(z.shape).to(z.dtype)
            z.register_hook(lambda task_gradient: task_gradient + push)

    def _build(self, z):
        """Penalty and critic for codes like z."""
        sizes = {"n_features": z.shape[1], "n_subjects": len(self.labels_), "n_classes": self.n_classes_}
        penalty = build_penalty(self.method, z, self.random_state, mode=self.mode, **sizes, **self.options)
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
        if isinstance(self.weight, bool) or not isinstance(self.weight, Real) or not np.isfinite(self.weight):
            raise ValueError(
                f"weight={self.weight!r} must be a finite number; a negative one reveals the subject."
            )
        check_size("warmup", self.warmup, minimum=0)
        check_size("critic_steps", self.critic_steps)
        check_positive("critic_lr", self.critic_lr)
        if isinstance(self.method, str):
            check_choice("mode", self.mode, MODES)
            check_keywords("Censor", self.options, options_of(self.method))
        others = [cb for _, cb in net.callbacks_ if isinstance(cb, Censor) and cb is not self]
        if any(other._prefix == self._prefix for other in others):
            raise ValueError(
                f"name={self.name!r}: two Censor callbacks write to the history as {self._prefix!r}; give "
                "one of them another name=."
            )


_OWN_PARAMETERS = [
    name
    for name, parameter in inspect.signature(Censor).parameters.items()
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD
]
_MIXES_PEOPLE = (
    "a trial that is mixed from several people's has no subject to censor. Leave Mixup and SegmentationReconstruction "
    "out; transforms that change one trial at a time (ChannelsDropout, GaussianNoise, TimeReverse, ...) keep its "
    "subject."
)


def _check_transforms(net):
    """Raise for an augmentation that mixes trials of several people."""
    waiting = [net.get_params_for("iterator_train").get("transforms")]
    while waiting:
        transform = waiting.pop()
        if isinstance(transform, (list, tuple)):
            waiting += transform
        elif isinstance(transform, Compose):
            waiting += transform.transforms
        elif isinstance(transform, (Mixup, SegmentationReconstruction)):
            raise ValueError(f"iterator_train__transforms holds {type(transform).__name__}: {_MIXES_PEOPLE}")


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
