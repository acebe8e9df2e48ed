"""The training protocol, in terms of skorch: what is split, drawn, weighed, scheduled and kept."""

import math
from contextlib import contextmanager

import mne
import numpy as np
import torch
from braindecode import EEGClassifier
from skorch.callbacks import BatchScoring, LRScheduler
from skorch.utils import to_device
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Subset

from braindecode_censor._check import check_choice
from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.encoders.resolve import module_options, resolve_module, set_momentum
from braindecode_censor.penalties.modes import MODES
from braindecode_censor.training.callback import Censor
from braindecode_censor.training.rules import BestEpoch
from braindecode_censor.training.task_loss import FoldCrossEntropy, class_weight
from braindecode_censor.trials.dataset import Trials, check_labels, home, read_signals, zscore
from braindecode_censor.trials.sampler import SubjectBatches
from braindecode_censor.trials.splits import split_subject, validation_subject
from braindecode_censor.trials.subject_labels import find_labels

__all__ = ["inverse_sqrt"]

_NO_SUBJECTS = (
    "whose trial each one is decides what is censored, who validates and what a batch holds. Call "
    "fit(X, y, subjects=labels) with one label per trial. In MOABB use CrossSubjectEvaluation, which hands the "
    "labels over by itself; WithinSession and CrossSession evaluations do not, and have nothing to censor."
)
# Option of the penalty -> parameter of the estimator.
_PENALTY_OPTIONS = {
    "score": "score_estimator",
    **{name: name for name in ("reg", "lengthscale", "pairs", "fraction", "size")},
}
_CENSOR_OPTIONS = ("weight", "warmup", "critic_lr", "critic_steps", "layer")
_MAKES_CALLBACKS = {"penalty", "censoring", "patience", *_CENSOR_OPTIONS, *_PENALTY_OPTIONS.values()}
# Moments of single trials cost as much as those of their batches in three to six epochs, and 17 kB a trial.
_EPOCHS_THAT_PAY = 8
_LARGEST_TABLE = 2**30


def inverse_sqrt(epoch):
    """Return the factor of the learning rate in an epoch, one over its square root.

    Parameters
    ----------
    epoch : int
        Counted from 0, as torch does.

    Returns
    -------
    factor : float
        1 in the first epoch.
    """
    return 1 / math.sqrt(epoch + 1)


class _LossMean(BatchScoring):
    """skorch's mean of the batches' losses, less the scoring: the net has written every loss already."""

    def on_batch_end(self, net, **kwargs):
        """Do nothing, instead of looking up the batch's loss and writing it again.

        Parameters
        ----------
        net : NeuralNet
            The net.
        **kwargs
            Ignored.
        """


class _ProtocolClassifier(EEGClassifier):
    """Braindecode's classifier with the protocol's data path; the constructor is its subclass's business."""

    trials_ = None  # the data, while training

    def _prepare(self, X, y, subjects, goes_on=False):
        """Check and encode what fit was given, and decide on everything that depends on it."""
        signals, targets = read_signals(X)
        if goes_on:
            self._check_shape(signals)
        n_trials = len(signals)
        y = check_labels("y", targets if y is None else y, n_trials, "pass one class per trial.")
        subjects = find_labels(X) if subjects is None else subjects
        subjects = check_labels("subjects", subjects, n_trials, _NO_SUBJECTS)
        if goes_on:
            codes = _encode(y, self.classes_inferred_)
        else:
            self.classes_inferred_, codes = np.unique(y, return_inverse=True)
        self._split(codes, subjects, goes_on)
        if not goes_on:
            sfreq = {"sfreq": X.info["sfreq"]} if isinstance(X, mne.BaseEpochs) else {}
            n_chans, n_times = signals.shape[1:]
            sizes = {"n_chans": n_chans, "n_times": n_times, "n_outputs": len(self.classes_)}
            self.signal_args_ = {**sizes, **sfreq}
        if (
            self.initialized_ and self.criterion is FoldCrossEntropy
        ):  # made with the weights of the trials before
            self.criterion_ = to_device(self.initialize_criterion().criterion_, self.device)
        signals = self._to_tensor(signals)
        return Trials(signals, torch.as_tensor(codes, device=signals.device), subjects), codes

    def _split(self, codes, subjects, goes_on=False):
        chosen = self.valid_subject
        if isinstance(chosen, str) and chosen == "rotate":
            chosen = validation_subject(subjects, self.roster)
        chosen = chosen.item() if isinstance(chosen, np.generic) else chosen
        train, valid = split_subject(subjects, chosen)
        _check_training_part(codes, subjects, train, chosen, self.classes_inferred_, self.penalty is not None)
        self.valid_subject_, self.split_ = chosen, (train, valid)
        self.batches_ = self._make_batches(subjects[train], codes[train], goes_on)
        share = None if self.batches_ is None else self.batches_.share()
        self.class_weight_ = self.train_weight_ = None
        if self.class_weighted:
            n_classes = len(self.classes_inferred_)
            self.class_weight_ = class_weight(codes[train], n_classes=n_classes)
            self.train_weight_ = class_weight(codes[train], share, n_classes)

    def _make_batches(self, subjects, codes, goes_on):
        check_choice("sampling", self.sampling, ("balanced", "shuffle"))
        check_choice("censoring", self.censoring, MODES)
        if self.sampling == "shuffle":
            return None
        y = codes if self.censoring == "conditional" else None
        return SubjectBatches(subjects, y, self.batch_size, self.subjects_per_batch, self._seed(goes_on))

    def _to_tensor(self, signals):
        signals = zscore(signals) if self.standardize else signals
        signals = torch.as_tensor(signals, dtype=torch.float32)
        return signals.to(home(signals.nbytes, self.device))

    def _seed(self, goes_on=False):
        """The seed; of a training that goes on another one after every epoch, lest it draw the same again."""
        if self.random_state is None:
            return int(torch.randint(2**31, ()))
        if not goes_on or not len(self.history):
            return self.random_state
        entropy = [self.random_state % 2**32, len(self.history)]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0])

    @contextmanager
    def _seeded(self, goes_on=False):
        """Seed torch for the time of a fit and leave its generators as they were."""
        if self.random_state is None:
            yield
            return
        on_cuda = torch.device(self.device).type == "cuda"
        with torch.random.fork_rng(devices=[self.device] if on_cuda else []):
            torch.manual_seed(self._seed(goes_on))
            yield

    # What follows replaces methods of skorch and Braindecode.

    def check_data(self, X, y=None):
        """Do nothing: the data were checked before skorch saw them.

        Parameters
        ----------
        X, y : object
            Ignored.
        """

    def get_dataset(self, X, y=None):
        """Return the trials of any input as a dataset.

        Parameters
        ----------
        X : Trials, array-like, mne.Epochs or Dataset
            Trials.
        y : None
            Unused.

        Returns
        -------
        trials : Trials
            Standardised, on the device.
        """
        if isinstance(X.dataset if isinstance(X, Subset) else X, Trials):
            return X
        signals, _ = read_signals(X)
        self._check_shape(signals)
        return Trials(self._to_tensor(signals))

    def _check_shape(self, signals):
        expected = tuple(self.signal_args_[name] for name in ("n_chans", "n_times"))
        if signals.shape[1:] != expected:
            raise ValueError(f"X has {signals.shape[1:]} channels and samples per trial, fit had {expected}.")

    def get_split_datasets(self, X, y=None, **fit_params):
        """Return the trials to train on and those of the validation subject.

        Parameters
        ----------
        X : Trials
            All trials given to ``fit``.
        y : None
            Unused.
        **fit_params
            Unused.

        Returns
        -------
        train, valid : Subset
            `valid` is None without a validation subject.
        """
        if self.train_split is not None:
            raise ValueError("train_split is not used here: choose the validation trials with valid_subject.")
        train, valid = self.split_
        self.trials_ = X  # until training ends
        self._compute_moments(train)
        return Subset(X, train.tolist()), Subset(X, valid.tolist()) if len(valid) else None

    def _compute_moments(self, train):
        """Take out of the training steps what depends on the data alone, if the network offers it."""
        lag_moments = getattr(getattr(self.module_, "_orig_mod", self.module_), "lag_moments", None)
        if lag_moments is None or self.max_epochs < _EPOCHS_THAT_PAY:
            return
        one = lag_moments(self.trials_.x[:1])
        if one.nbytes * len(train) <= _LARGEST_TABLE:
            self.trials_.compute_moments(lag_moments, train)

    def infer(self, x, **fit_params):
        """Run the network on a batch.

        Parameters
        ----------
        x : Tensor of shape (n_trials, n_chans, n_times)
            Signals.
        **fit_params
            Further arguments of the module's ``forward``.

        Returns
        -------
        y_pred : Tensor of shape (n_trials, n_classes)
            Logits.
        """
        moments = self.trials_.moments_of(x) if self.trials_ is not None and self.module_.training else None
        if moments is not None:
            fit_params["moments"] = moments.to(self.device)
        return super().infer(x, **fit_params)

    def get_params_for(self, prefix):
        """Collect the arguments of a part of the net.

        Parameters
        ----------
        prefix : str
            Such as "module" or "iterator_train".

        Returns
        -------
        kwargs : dict
            The user's, completed by what the data and the protocol say.
        """
        kwargs = super().get_params_for(prefix)
        if prefix == "module":
            module = resolve_module(self.module, self.fast)
            return module_options(module, getattr(self, "signal_args_", {}), kwargs, self.batch_norm_momentum)
        if prefix == "iterator_train":
            return {"batches": self.batches_, **kwargs} if self.batches_ is not None else kwargs
        chosen = {"fused", "foreach", "differentiable"} & set(kwargs)  # the user knows better
        if prefix == "optimizer" and self.optimizer is torch.optim.AdamW and not chosen:
            # "foreach" has the numbers of torch's default in half the time. "fused" is faster still and rounds
            # otherwise, which the fast network does anyway.
            able = torch.device(self.device).type in ("cpu", "cuda", "mps")
            return {**kwargs, "fused" if able and isinstance(self.module_, FastEEGNet) else "foreach": True}
        if prefix == "criterion" and self.criterion is FoldCrossEntropy:
            names = {"weight": "class_weight_", "train_weight": "train_weight_"}  # unknown before any data
            return {**{name: getattr(self, own, None) for name, own in names.items()}, **kwargs}
        return kwargs

    def initialize_module(self):
        """Build the network.

        Returns
        -------
        self : _ProtocolClassifier
            The net.
        """
        module, options = resolve_module(self.module, self.fast), self.get_params_for("module")
        self.module_ = self.initialized_instance(module, options)
        set_momentum(self.module_, options.get("batch_norm_momentum", self.batch_norm_momentum))
        return self

    @property
    def _default_callbacks(self):
        dropped = {"valid_acc"} | ({"print_log"} if not self.verbose else set())
        callbacks = [item for item in super()._default_callbacks if item[0] not in dropped]
        callbacks = [(name, _without_scoring(callback)) for name, callback in callbacks]
        callbacks.append(("schedule", LRScheduler(LambdaLR, lr_lambda=inverse_sqrt)))
        if self.penalty is not None:
            options = {option: getattr(self, name) for option, name in _PENALTY_OPTIONS.items()}
            options = {name: value for name, value in options.items() if value is not None}
            options |= {name: getattr(self, name) for name in _CENSOR_OPTIONS}
            options["random_state"] = self.random_state or 0
            callbacks.append(("censor", Censor(self.penalty, self.censoring, **options)))
        return [*callbacks, ("best", BestEpoch(self.patience))]

    def set_params(self, **params):
        """Set parameters.

        Parameters
        ----------
        **params
            Names and values. Those that callbacks were made with make them anew, as in skorch: a net that was
            trained before goes on with a new critic, and with no best epoch to beat.

        Returns
        -------
        self : _ProtocolClassifier
            The net.
        """
        optimizer = getattr(self, "optimizer_", None)
        super().set_params(**params)
        if not self.initialized_:
            return self
        rebuilt = self.optimizer_ is not optimizer  # skorch makes parts anew whose arguments change
        if rebuilt or not {"lr", "optimizer__lr"}.isdisjoint(params):
            for group in self.optimizer_.param_groups:  # where the schedule, which goes on, starts from
                group["initial_lr"] = group["lr"]
        if "batch_norm_momentum" in params:
            set_momentum(self.module_, self.batch_norm_momentum)
        if rebuilt or not _MAKES_CALLBACKS.isdisjoint(params):
            self._initialize_callbacks()
        return self

    def initialize_callbacks(self):
        """Make the callbacks, taking back what earlier ones may have left on the network.

        Returns
        -------
        self : _ProtocolClassifier
            The net.
        """
        for _, callback in getattr(self, "callbacks_", ()):
            if isinstance(callback, Censor):
                callback.initialize()
        return super().initialize_callbacks()

    @property
    def _was_fitted(self):
        """Whether there is a training to go on with."""
        return self.initialized_ and hasattr(self, "signal_args_")

    def _set_signal_args(self, X, y, classes):
        # Braindecode writes what it infers into the parameters, where a clone would inherit it.
        pass

    def _get_param_names(self):
        # skorch lists a private set among the parameters. Its printed order changes from process to process,
        # and with it the key under which MOABB looks for results.
        return [name for name in super()._get_param_names() if not name.startswith("_")]


def _encode(y, classes):
    """Numbers of known classes."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    unknown = [label for label in np.unique(y).tolist() if label not in places]
    if unknown:
        raise ValueError(
            f"y holds {unknown}, but the net was made for the classes {classes.tolist()}: partial_fit goes on with "
            "these, fit begins anew with others."
        )
    return np.array([places[label] for label in y.tolist()])


def _without_scoring(callback):
    return _LossMean(**callback.get_params(deep=False)) if type(callback) is BatchScoring else callback


def _check_training_part(codes, subjects, train, valid_subject, classes, censors):
    if len(classes) < 2:
        raise ValueError(f"y holds one class, {classes.tolist()}: a classifier needs at least two.")
    people = np.unique(subjects[train])
    needed = 2 if censors else 1
    if len(people) < needed:
        raise ValueError(
            f"subjects: {len(people)} left to train on beside the validation subject {valid_subject!r}, but "
            f"{'censoring' if censors else 'training'} needs {needed}: add subjects or pass "
            "valid_subject=None."
        )
    absent = np.setdiff1d(codes, codes[train])
    if len(absent):
        raise ValueError(
            f"y: class {classes[absent].tolist()} occurs only in the validation subject {valid_subject!r}; "
            "choose another valid_subject or leave the class out."
        )
