"""The training protocol in terms of skorch: components of the net, split, normalisation, batches, schedule."""

import math
from contextlib import contextmanager
from functools import cached_property
from itertools import islice

import mne
import numpy as np
import torch
from braindecode import EEGClassifier
from sklearn.metrics import recall_score
from skorch.callbacks import BatchScoring, EpochTimer, PrintLog
from skorch.utils import params_for, to_device, to_tensor, train_loss_score, valid_loss_score
from torch.utils.data import Subset

from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.encoders.resolve import module_options, resolve_module, set_momentum, whole_module
from braindecode_censor.encoders.shallow import speed_up
from braindecode_censor.training.arguments import NET_ARGUMENTS, check_names, find_optimizer
from braindecode_censor.training.callback import Censor
from braindecode_censor.training.layers import code_of
from braindecode_censor.training.preparation import (
    check_train_idx,
    encode,
    find_valid_subjects,
    read_subjects,
)
from braindecode_censor.training.rules import AverageWeights, BestEpoch, DivergedError, ValidationScore
from braindecode_censor.training.schedule import count_epochs, count_steps, learning_rate
from braindecode_censor.training.task_loss import FoldCrossEntropy, class_weight
from braindecode_censor.trials.augment import make_transforms
from braindecode_censor.trials.dataset import (
    TrialLoader,
    Trials,
    check_labels,
    check_sense,
    home,
    read_signals,
    signal_names,
)
from braindecode_censor.trials.normalize import SubjectNormalizer
from braindecode_censor.trials.quality import check_trials
from braindecode_censor.trials.sampler import SubjectBatches
from braindecode_censor.trials.splits import split_trials
from braindecode_censor.trials.stored import BLOCK, StoredSignals, read_blocks

__all__ = []

# Defaults of arguments that are skorch's own.
_DEFAULTS = {
    "criterion": FoldCrossEntropy,
    "optimizer": torch.optim.AdamW,
    "iterator_train": TrialLoader,
    "iterator_valid": TrialLoader,
    "iterator_valid__batch_size": 512,
    "train_split": None,
    "verbose": 0,
}
# Arguments from which the callbacks are made.
_CALLBACK_ARGUMENTS = {"penalty", "censoring", "weight", "layer", "patience", "keep"}
# Moments of single trials cost as much as those of their batches in three to six epochs, and 17 kB a trial.
_MIN_EPOCHS_FOR_MOMENTS = 8
_MAX_MOMENTS_BYTES = 2**30


class _LossMean(BatchScoring):
    """skorch's mean of the batches' losses without the scoring, because the net has recorded every loss already."""

    def on_batch_end(self, net, **kwargs):
        """Do nothing."""


class _ProtocolClassifier(EEGClassifier):
    """Braindecode's classifier with the training protocol; its subclass declares the arguments."""

    batches_ = class_weight_ = train_weight_ = None  # These follow from the training trials.
    trials_ = None  # training data, during training
    augment_batch_ = None  # transform of a step's signals, during training
    adapted_ = False  # whether the statistics are those of one subject
    head_ = None  # correction of the last layer by labelled trials of that subject

    def __init__(self, params, kwargs):
        params = {**_DEFAULTS, **check_names({**params, **kwargs}, params)}
        net_params = {
            name: value
            for name, value in params.items()
            if name in NET_ARGUMENTS or ("__" in name and not name.startswith("penalty__"))
        }
        vars(self).update({name: value for name, value in params.items() if name not in net_params})
        super().__init__(**net_params)

    def get_params_for(self, prefix):
        """Collect the arguments of a component of the net."""
        kwargs = super().get_params_for(prefix)
        if prefix == "module":
            module = resolve_module(self.module, self.fast)
            return module_options(module, getattr(self, "signal_args_", {}), kwargs, self.batch_norm_momentum)
        if prefix == "iterator_train":
            return {"batches": self.batches_, **kwargs} if self.batches_ is not None else kwargs
        is_set_by_user = not {"fused", "foreach", "differentiable"}.isdisjoint(kwargs)
        if (
            prefix == "optimizer"
            and find_optimizer(self.optimizer) is torch.optim.AdamW
            and not is_set_by_user
        ):
            # "foreach" has the numbers of torch's default in half the time. "fused" is faster still and rounds
            # otherwise, which the fast network does anyway.
            has_fused = torch.device(self.device).type in ("cpu", "cuda", "mps")
            return {
                **kwargs,
                "fused" if has_fused and isinstance(self.module_, FastEEGNet) else "foreach": True,
            }
        if prefix == "criterion" and self.criterion is FoldCrossEntropy:
            return {"weight": self.class_weight_, "train_weight": self.train_weight_, **kwargs}
        return kwargs

    def initialize_module(self):
        """Build the network."""
        module, options = resolve_module(self.module, self.fast), self.get_params_for("module")
        try:
            self.module_ = self.initialized_instance(module, options)
        except ValueError as error:  # Braindecode's models run a forward pass when they are built.
            sizes = getattr(self, "signal_args_", {})
            raise ValueError(
                f"module={self.module!r} cannot be built for signals of {sizes}; often its layers need longer trials. "
                f"Its error is: {error}"
            ) from error
        set_momentum(self.module_, options.get("batch_norm_momentum", self.batch_norm_momentum))
        if self.fast and isinstance(self.module, str):
            speed_up(self.module_)
        return self

    @cached_property
    def optimizer_(self):
        """Optimizer, built when a training first needs it: its construction imports torch's compiler."""
        args, kwargs = self.get_params_for_optimizer("optimizer", self.get_all_learnable_params())
        return find_optimizer(self.optimizer)(*args, **kwargs)

    def initialize_optimizer(self, triggered_directly=None):
        """Forget an earlier optimizer, and let skorch know that there will be one."""
        vars(self).pop("optimizer_", None)
        if "optimizer" not in self._optimizers:
            self._register_attribute("optimizer_", None)
        return self

    @property
    def _default_callbacks(self):
        callbacks = [
            ("epoch_timer", EpochTimer()),
            ("train_loss", _LossMean(train_loss_score, name="train_loss", on_train=True)),
            ("valid_loss", _LossMean(valid_loss_score, name="valid_loss")),
        ]
        if self.verbose:
            callbacks.append(("print_log", PrintLog()))
        if self.penalty is not None:
            callbacks.append(("censor", self._make_censor()))
        callbacks.append(("validation", ValidationScore()))
        if self.keep == "ema":
            callbacks.append(("average", AverageWeights()))
        return [*callbacks, ("best", BestEpoch(self.patience, restore=self.keep == "best"))]

    def _make_censor(self):
        options = {"weight": self.weight, "layer": self.layer, "random_state": self.random_state or 0}
        options |= {k: v for k, v in params_for("penalty", vars(self)).items() if v is not None}
        return Censor(self.penalty, self.censoring, **options)

    def set_params(self, **params):
        """Set parameters."""
        params = check_names(params, self.get_params(deep=False))
        optimizer = getattr(self, "optimizer_", None)
        penalty_options = {name for name in params if name.startswith("penalty__")}
        # skorch does not know this prefix, and would build the components of the net again.
        vars(self).update({name: params[name] for name in penalty_options})
        super().set_params(**{name: value for name, value in params.items() if name not in penalty_options})
        if not self.initialized_:
            return self
        is_rebuilt = self.optimizer_ is not optimizer
        if is_rebuilt or not {"lr", "optimizer__lr"}.isdisjoint(params):
            for group in self.optimizer_.param_groups:
                group["initial_lr"] = group["lr"]  # The schedule starts from here.
        if "batch_norm_momentum" in params:
            set_momentum(self.module_, self.batch_norm_momentum)
        if is_rebuilt or penalty_options or not _CALLBACK_ARGUMENTS.isdisjoint(params):
            self._initialize_callbacks()
        return self

    def initialize_callbacks(self):
        """Build the callbacks, and remove the hooks of earlier ones from the network."""
        for _, callback in getattr(self, "callbacks_", ()):
            if isinstance(callback, Censor):
                callback.initialize()
        return super().initialize_callbacks()

    def check_data(self, X, y=None):
        """Do nothing, because the data are checked before skorch gets them."""

    def _set_signal_args(self, X, y, classes):
        # Braindecode writes what it infers into the parameters, where a clone would inherit it.
        pass

    def _get_param_names(self):
        # skorch lists a private set among the parameters. Its printed order changes from process to process,
        # and with it the key under which MOABB looks for results.
        return [name for name in super()._get_param_names() if not name.startswith("_")]

    def _prepare(self, X, y, subjects, continues=False):
        """Check and encode the arguments of fit, and set all that depends on them."""
        self.adapted_, self.head_ = False, None
        signals, targets = read_signals(X)
        if continues:
            self._check_shape(signals)
        n_trials = len(signals)
        y = check_labels("y", targets if y is None else y, n_trials, "pass one class per trial.")
        are_needed = self.penalty is not None or self.valid_subject is not None
        subjects = read_subjects(X, subjects, n_trials, are_needed)
        if continues:
            y_encoded = encode(
                y, self.classes_inferred_, "partial_fit needs these; fit begins again with others."
            )
        else:
            self.classes_inferred_, y_encoded = np.unique(y, return_inverse=True)
            check_sense(signals, self.classes_inferred_)
        check_trials(signals, y, subjects, signal_names(X))
        self._split(y_encoded, subjects, continues)
        if not continues:
            n_chans, n_times = signals.shape[1:]
            self.signal_args_ = {"n_chans": n_chans, "n_times": n_times, "n_outputs": len(self.classes_)}
            if isinstance(X, mne.BaseEpochs):
                self.signal_args_["sfreq"] = X.info["sfreq"]
        # An earlier criterion has the class weights of other trials.
        if self.initialized_ and self.criterion is FoldCrossEntropy:
            self.criterion_ = to_device(self.initialize_criterion().criterion_, self.device)
        self.normalizer_ = SubjectNormalizer(self.normalize, self.prior)
        signals = self.normalizer_.fit_subjects(signals, subjects, self.split_[0])
        sfreq = self.signal_args_.get("sfreq", getattr(self, "module__sfreq", None))
        augmentation = make_transforms(self.augment, sfreq, self._seed(continues))
        # The method, because skorch takes a module for a component of the net.
        self.augment_batch_ = None if augmentation is None else augmentation.apply
        return self._make_trials(signals, y_encoded, subjects), y_encoded

    def _split(self, y_encoded, subjects, continues=False):
        """Set training and validation trials, batches and class weights."""
        valid_subjects = find_valid_subjects(self.valid_subject, subjects, self.all_subjects)
        train, valid = self.split_ = split_trials(subjects, valid_subjects)
        censors = self.penalty is not None
        check_train_idx(y_encoded, subjects, train, valid_subjects, self.classes_inferred_, censors)
        self.valid_subject_ = valid_subjects if len(valid_subjects) > 1 else next(iter(valid_subjects), None)
        self.batches_ = self._make_batches(subjects[train], y_encoded[train], continues)
        self.class_weight_ = self.train_weight_ = None
        if self.class_weighted:
            n_classes = len(self.classes_inferred_)
            draw_weight = None if self.batches_ is None else self.batches_.draw_probability()
            self.class_weight_ = class_weight(y_encoded[train], n_classes=n_classes)
            self.train_weight_ = class_weight(y_encoded[train], draw_weight, n_classes)

    def _make_batches(self, subjects, y_encoded, continues):
        if self.sampling == "shuffle":
            return None
        y = y_encoded if self.censoring == "conditional" else None
        return SubjectBatches(subjects, y, self.batch_size, self.subjects_per_batch, self._seed(continues))

    def _make_trials(self, signals, y_encoded=None, subjects=None):
        """Return a dataset on the device of training; signals in a file stay there unless a GPU has room."""
        if isinstance(signals, StoredSignals) and home(signals.nbytes, self.device).type == "cpu":
            y = None if y_encoded is None else torch.as_tensor(y_encoded)
            return Trials(signals, y, subjects, pinned=torch.device(self.device).type == "cuda")
        x = self._to_tensor(signals)
        y = None if y_encoded is None else torch.as_tensor(y_encoded, device=x.device)
        return Trials(x, y, subjects)

    def _to_tensor(self, signals):
        if isinstance(signals, StoredSignals):  # Block by block, so that the CPU's memory holds no copy.
            x = torch.empty(signals.shape, device=home(signals.nbytes, self.device))
            for rows, block in zip(x.split(BLOCK), read_blocks(signals)):
                rows.copy_(torch.as_tensor(block))
            return x
        signals = torch.as_tensor(signals, dtype=torch.float32)
        return signals.to(home(signals.nbytes, self.device))

    def _seed(self, continues=False):
        """Return the seed; a continued training has another one after every epoch, so that it draws new numbers."""
        if self.random_state is None:
            return int(torch.randint(2**31, ()))
        if not continues or not len(self.history):
            return self.random_state
        entropy = [self.random_state % 2**32, len(self.history)]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0])

    def _train(self, X, y, fit_params):
        try:
            super().partial_fit(X, y, **fit_params)
            self._score_final_weights(X)
        finally:
            self.trials_ = self.augment_batch_ = None  # An estimator must not carry its training data around.
        return self

    def _score_final_weights(self, trials):
        """Score the final weights on the validation trials; raise if they are not finite."""
        if self.keep == "best":
            best = dict(self.callbacks_)["best"]
            self.best_epoch_, self.valid_score_ = best.epoch_, best.score_
            return
        loss = self.history[-1].get("train_loss", 0.0)
        weights = self.module_.state_dict().values()
        if not math.isfinite(loss) or not all(torch.isfinite(tensor).all() for tensor in weights):
            raise DivergedError(loss, "Training ended with a loss or weights that are not finite")
        self.best_epoch_, self.valid_score_ = None, math.nan
        valid = self.split_[1]
        if len(valid):
            y = trials.y[valid].cpu().numpy()
            y_pred = self.predict_proba(Subset(trials, valid.tolist())).argmax(axis=1)
            self.valid_score_ = float(recall_score(y, y_pred, labels=np.unique(y), average="macro"))

    @contextmanager
    def _seeded(self, continues=False):
        """Seed torch during a fit and restore its generators afterwards."""
        if self.random_state is None:
            yield
            return
        on_cuda = torch.device(self.device).type == "cuda"
        with torch.random.fork_rng(devices=[self.device] if on_cuda else []):
            torch.manual_seed(self._seed(continues))
            yield

    def get_dataset(self, X, y=None):
        """Return the trials of any input as a dataset."""
        if isinstance(X.dataset if isinstance(X, Subset) else X, Trials):
            return X
        return self._make_trials(self.normalizer_.transform_lazily(self._read(X)))

    def _read(self, X):
        """Return the checked signals of trials to decode."""
        signals, _ = read_signals(X)
        self._check_shape(signals)
        check_trials(signals, names=signal_names(X))
        return signals

    def _check_shape(self, signals):
        expected = tuple(self.signal_args_[name] for name in ("n_chans", "n_times"))
        if signals.shape[1:] != expected:
            raise ValueError(f"X has {signals.shape[1:]} channels and samples per trial, fit had {expected}.")

    def get_split_datasets(self, X, y=None, **fit_params):
        """Return the training trials and the validation trials."""
        train, valid = self.split_
        self.trials_ = X
        self._compute_moments(train)
        return Subset(X, train.tolist()), Subset(X, valid.tolist()) if len(valid) else None

    def _compute_moments(self, train):
        """Compute once what the training steps need of single trials, if the network has a function for it."""
        lag_moments = getattr(whole_module(self.module_), "lag_moments", None)
        n_epochs = count_epochs(self.n_steps_, self._steps_per_epoch())
        if lag_moments is None or n_epochs < _MIN_EPOCHS_FOR_MOMENTS or self.augment_batch_ is not None:
            return
        if lag_moments(self.trials_[[0]][0]).nbytes * len(train) <= _MAX_MOMENTS_BYTES:
            self.trials_.compute_moments(lag_moments, train)

    def _steps_per_epoch(self):
        if self.batches_ is not None:
            return len(self.batches_)
        options = self.get_params_for("iterator_train")
        n_trials, size = len(self.split_[0]), options.get("batch_size", self.batch_size)
        size = min(size, n_trials)  # as TrialLoader does
        return n_trials // size if options.get("drop_last") else math.ceil(n_trials / size)

    def fit_loop(self, X, y=None, epochs=None, **fit_params):
        """Train until the last step."""
        steps_per_epoch = self._steps_per_epoch()
        self.step_, self.complete_ = 0, False
        self.n_steps_ = count_steps(self.max_steps, self.max_epochs, steps_per_epoch)
        super().fit_loop(X, y, count_epochs(self.n_steps_, steps_per_epoch), **fit_params)
        self.complete_ = True
        return self

    def run_single_epoch(self, iterator, training, prefix, step_fn, **fit_params):
        """Train or validate for an epoch; the last one ends with the last step."""
        if training:
            iterator = islice(iterator, self.n_steps_ - self.step_)
        super().run_single_epoch(iterator, training, prefix, step_fn, **fit_params)
        if training:
            self.history.record("event_lr", self.optimizer_.param_groups[0]["lr"])

    def train_step(self, batch, **fit_params):
        """Take one step: set the learning rate, augment the batch, update the weights."""
        self._set_learning_rate()
        if self.augment_batch_ is not None:
            batch = self.augment_batch_(batch[0].to(self.device), self.step_), batch[1]
        step = super().train_step(batch, **fit_params)
        self.step_ += 1
        return step

    def _set_learning_rate(self):
        if self.schedule == "constant":  # A scheduler among the user's callbacks may set the rate.
            return
        epoch = len(self.history) - 1
        for group in self.optimizer_.param_groups:
            top = group.setdefault("initial_lr", group["lr"])
            group["lr"] = learning_rate(self.schedule, top, self.step_, self.n_steps_, epoch)

    def infer(self, x, **fit_params):
        """Run the network on a batch."""
        moments = self.trials_.moments_of(x) if self.trials_ is not None and self.module_.training else None
        if moments is not None:
            fit_params["moments"] = moments.to(self.device)
        y_pred = super().infer(x, **fit_params)
        if self.head_ is None:
            return y_pred
        z = code_of(whole_module(self.module_), self.layer, to_tensor(x, device=self.device))
        return y_pred + z @ self.head_["coef"].T + self.head_["intercept"]

    @property
    def _was_fitted(self):
        """Whether ``partial_fit`` can continue a training."""
        return self.initialized_ and hasattr(self, "signal_args_")
