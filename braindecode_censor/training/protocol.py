"""The training protocol, in terms of skorch: what is split, normalised, drawn, augmented, scheduled and kept."""

import math
from contextlib import contextmanager
from itertools import islice

import mne
import numpy as np
import torch
from braindecode import EEGClassifier
from skorch.callbacks import BatchScoring
from skorch.utils import to_device
from torch.utils.data import Subset

from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.encoders.resolve import module_options, resolve_module, set_momentum, whole_module
from braindecode_censor.penalties.options import PENALTY_ARGUMENTS
from braindecode_censor.training.arguments import check_arguments, find_optimizer
from braindecode_censor.training.callback import Censor
from braindecode_censor.training.preparation import (
    check_training_part,
    choose_validation,
    encode,
    normalize_trials,
    read_subjects,
    split_people,
)
from braindecode_censor.training.rules import AverageWeights, BestEpoch, ValidationScore
from braindecode_censor.training.schedule import count_epochs, count_steps, learning_rate
from braindecode_censor.training.task_loss import FoldCrossEntropy, class_weight
from braindecode_censor.trials.dataset import TrialLoader, Trials, check_labels, home, read_signals
from braindecode_censor.trials.normalize import SubjectNormalizer
from braindecode_censor.trials.sampler import SubjectBatches

__all__ = []

_CENSOR_OPTIONS = ("weight", "warmup", "critic_lr", "critic_steps", "layer")
_MAKES_CALLBACKS = {"penalty", "censoring", "patience", "keep", *_CENSOR_OPTIONS, *PENALTY_ARGUMENTS.values()}
# Moments of single trials cost as much as those of their batches in three to six epochs, and 17 kB a trial.
_EPOCHS_THAT_PAY = 8
_LARGEST_TABLE = 2**30


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
    augment_ = None  # what changes the batches, while training
    adapted_ = False  # whether it decodes one person's trials
    head_ = None  # what labelled trials of that person add to the last layer

    def _prepare(self, X, y, subjects, continues=False):
        """Check and encode what fit was given, and decide on everything that depends on it."""
        check_arguments(self)
        signals, targets = read_signals(X)
        if continues:
            self._check_shape(signals)
        n_trials = len(signals)
        y = check_labels("y", targets if y is None else y, n_trials, "pass one class per trial.")
        needed = self.penalty is not None or self.valid_subject is not None
        subjects = read_subjects(X, subjects, n_trials, needed)
        if continues:
            remedy = "partial_fit goes on with these, fit begins anew with others."
            codes = encode(y, self.classes_inferred_, remedy)
        else:
            self.classes_inferred_, codes = np.unique(y, return_inverse=True)
        self._split(codes, subjects, continues)
        if not continues:
            sfreq = {"sfreq": X.info["sfreq"]} if isinstance(X, mne.BaseEpochs) else {}
            n_chans, n_times = signals.shape[1:]
            sizes = {"n_chans": n_chans, "n_times": n_times, "n_outputs": len(self.classes_)}
            self.signal_args_ = {**sizes, **sfreq}
        if (
            self.initialized_ and self.criterion is FoldCrossEntropy
        ):  # it was made with the weights of other trials
            self.criterion_ = to_device(self.initialize_criterion().criterion_, self.device)
        self.normalizer_ = SubjectNormalizer(self.normalize, self.prior)
        signals = self._to_tensor(normalize_trials(self.normalizer_, signals, subjects, *self.split_))
        self.augment_ = self._make_augmentation(continues)
        return Trials(signals, torch.as_tensor(codes, device=signals.device), subjects), codes

    def _split(self, codes, subjects, continues=False):
        """Decide who validates, what a batch holds, and what a class weighs."""
        chosen = choose_validation(self.valid_subject, subjects, self.roster)
        train, valid = split_people(subjects, chosen)
        check_training_part(codes, subjects, train, chosen, self.classes_inferred_, self.penalty is not None)
        self.valid_subject_ = chosen if len(chosen) > 1 else chosen[0] if chosen else None
        self.split_ = train, valid
        self.batches_ = self._make_batches(subjects[train], codes[train], continues)
        share = None if self.batches_ is None else self.batches_.share()
        self.class_weight_ = self.train_weight_ = None
        if self.class_weighted:
            n_classes = len(self.classes_inferred_)
            self.class_weight_ = class_weight(codes[train], n_classes=n_classes)
            self.train_weight_ = class_weight(codes[train], share, n_classes)

    def _make_batches(self, subjects, codes, continues):
        if self.sampling == "shuffle":
            return None
        y = codes if self.censoring == "conditional" else None
        return SubjectBatches(subjects, y, self.batch_size, self.subjects_per_batch, self._seed(continues))

    def _make_augmentation(self, continues=False):
        if self.augment is None or not len(self.augment):
            return None
        from braindecode_censor.trials.augment import make_transforms

        sfreq = self.signal_args_.get("sfreq", getattr(self, "module__sfreq", None))
        return make_transforms(self.augment, sfreq, self._seed(continues))

    def _to_tensor(self, signals):
        """Put normalised signals where they are trained on."""
        signals = torch.as_tensor(signals, dtype=torch.float32)
        return signals.to(home(signals.nbytes, self.device))

    def _seed(self, continues=False):
        """The seed; of a training that goes on another one after every epoch, lest it draw the same again."""
        if self.random_state is None:
            return int(torch.randint(2**31, ()))
        if not continues or not len(self.history):
            return self.random_state
        entropy = [self.random_state % 2**32, len(self.history)]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0])

    @contextmanager
    def _seeded(self, continues=False):
        """Seed torch for the time of a fit and leave its generators as they were."""
        if self.random_state is None:
            yield
            return
        on_cuda = torch.device(self.device).type == "cuda"
        with torch.random.fork_rng(devices=[self.device] if on_cuda else []):
            torch.manual_seed(self._seed(continues))
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
            Normalised without a look at each other, on the device.
        """
        if isinstance(X.dataset if isinstance(X, Subset) else X, Trials):
            return X
        signals, _ = read_signals(X)
        self._check_shape(signals)
        return Trials(self._to_tensor(self.normalizer_.transform(signals)))

    def _check_shape(self, signals):
        expected = tuple(self.signal_args_[name] for name in ("n_chans", "n_times"))
        if signals.shape[1:] != expected:
            raise ValueError(f"X has {signals.shape[1:]} channels and samples per trial, fit had {expected}.")

    def get_split_datasets(self, X, y=None, **fit_params):
        """Return the trials to train on and those of the people who validate.

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
            `valid` is None if nobody validates.
        """
        train, valid = self.split_
        self.trials_ = X  # until training ends
        self._compute_moments(train)
        return Subset(X, train.tolist()), Subset(X, valid.tolist()) if len(valid) else None

    def _compute_moments(self, train):
        """Take out of the training steps what depends on the data alone, if the network offers it."""
        lag_moments = getattr(whole_module(self.module_), "lag_moments", None)
        n_epochs = count_epochs(self.n_steps_, self._steps_per_epoch())
        if lag_moments is None or n_epochs < _EPOCHS_THAT_PAY or self.augment_ is not None:
            return
        one = lag_moments(self.trials_.x[:1])
        if one.nbytes * len(train) <= _LARGEST_TABLE:
            self.trials_.compute_moments(lag_moments, train)

    def _steps_per_epoch(self):
        if self.batches_ is not None:
            return len(self.batches_)
        options = self.get_params_for("iterator_train")
        n_trials, size = len(self.split_[0]), options.get("batch_size", self.batch_size)
        size = min(size, n_trials) if self.iterator_train is TrialLoader else size
        return n_trials // size if options.get("drop_last") else math.ceil(n_trials / size)

    def fit_loop(self, X, y=None, epochs=None, **fit_params):
        """Train until the last step.

        Parameters
        ----------
        X : Trials
            All trials given to ``fit``.
        y : ndarray of shape (n_trials,)
            Classes.
        epochs : None
            Unused: `max_steps` and `max_epochs` say how long.
        **fit_params
            Handed to the module's ``forward``.

        Returns
        -------
        self : _ProtocolClassifier
            The net.
        """
        steps_per_epoch = self._steps_per_epoch()
        self.step_, self.complete_ = 0, False
        self.n_steps_ = count_steps(self.max_steps, self.max_epochs, steps_per_epoch)
        super().fit_loop(X, y, count_epochs(self.n_steps_, steps_per_epoch), **fit_params)
        self.complete_ = True
        return self

    def run_single_epoch(self, iterator, training, prefix, step_fn, **fit_params):
        """Train or validate for an epoch, of which the last may be cut short.

        Parameters
        ----------
        iterator : iterable or None
            Batches.
        training : bool
            Whether to train on them.
        prefix : str
            "train" or "valid", for the history.
        step_fn : callable
            What to do with a batch.
        **fit_params
            Handed to `step_fn`.
        """
        if training:
            iterator = islice(iterator, self.n_steps_ - self.step_)
        super().run_single_epoch(iterator, training, prefix, step_fn, **fit_params)
        if training:
            self.history.record("event_lr", self.optimizer_.param_groups[0]["lr"])

    def train_step(self, batch, **fit_params):
        """Take one step: set the learning rate, change the signals, and follow the gradient.

        Parameters
        ----------
        batch : tuple
            Signals and classes.
        **fit_params
            Handed to the module's ``forward``.

        Returns
        -------
        step : dict
            Loss and predictions.
        """
        self._set_learning_rate()
        if self.augment_ is not None:
            x, y = batch[0].to(self.device), batch[1].to(self.device)
            batch = self.augment_(x, y)
        step = super().train_step(batch, **fit_params)
        self.step_ += 1
        return step

    def _set_learning_rate(self):
        if self.schedule == "constant":  # a scheduler among the user's callbacks may have its own plans
            return
        epoch = len(self.history) - 1
        for group in self.optimizer_.param_groups:
            top = group.setdefault("initial_lr", group["lr"])
            group["lr"] = learning_rate(self.schedule, top, self.step_, self.n_steps_, epoch)

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
        if prefix == "optimizer" and find_optimizer(self.optimizer) is torch.optim.AdamW and not chosen:
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

    def initialize_optimizer(self, triggered_directly=None):
        """Build the optimiser, which may be given by its name.

        Parameters
        ----------
        triggered_directly : None
            Unused.

        Returns
        -------
        self : _ProtocolClassifier
            The net.
        """
        args, kwargs = self.get_params_for_optimizer("optimizer", self.get_all_learnable_params())
        self.optimizer_ = find_optimizer(self.optimizer)(*args, **kwargs)
        return self

    @property
    def _default_callbacks(self):
        dropped = {"valid_acc"} | ({"print_log"} if not self.verbose else set())
        callbacks = [item for item in super()._default_callbacks if item[0] not in dropped]
        callbacks = [(name, _without_scoring(callback)) for name, callback in callbacks]
        if self.penalty is not None:
            options = {option: getattr(self, name) for option, name in PENALTY_ARGUMENTS.items()}
            options = {name: value for name, value in options.items() if value is not None}
            options |= {name: getattr(self, name) for name in _CENSOR_OPTIONS}
            options["random_state"] = self.random_state or 0
            callbacks.append(("censor", Censor(self.penalty, self.censoring, **options)))
        callbacks.append(("validation", ValidationScore()))
        if self.keep == "ema":
            callbacks.append(("average", AverageWeights()))
        return [*callbacks, ("best", BestEpoch(self.patience, restore=self.keep == "best"))]

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
            for group in self.optimizer_.param_groups:  # where the schedule starts from
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


def _without_scoring(callback):
    return _LossMean(**callback.get_params(deep=False)) if type(callback) is BatchScoring else callback
