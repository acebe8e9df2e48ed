"""The parts of the net, made from the estimator's arguments: network, loss, optimiser, loaders and callbacks."""

import torch
from braindecode import EEGClassifier
from skorch.callbacks import BatchScoring

from braindecode_censor.encoders.eegnet import FastEEGNet
from braindecode_censor.encoders.resolve import module_options, resolve_module, set_momentum
from braindecode_censor.encoders.shallow import speed_up
from braindecode_censor.penalties.options import PENALTY_ARGUMENTS
from braindecode_censor.training.arguments import check_names, find_optimizer
from braindecode_censor.training.callback import Censor
from braindecode_censor.training.rules import AverageWeights, BestEpoch, ValidationScore
from braindecode_censor.training.task_loss import FoldCrossEntropy

__all__ = []

_CENSOR_OPTIONS = ("weight", "warmup", "critic_lr", "critic_steps", "layer")
_MAKES_CALLBACKS = {"penalty", "censoring", "patience", "keep", *_CENSOR_OPTIONS, *PENALTY_ARGUMENTS.values()}


class _LossMean(BatchScoring):
    """skorch's mean of the batches' losses, less the scoring: the net has written every loss already."""

    def on_batch_end(self, net, **kwargs):
        """Do nothing, instead of looking up the batch's loss and writing it again."""


class _PartsClassifier(EEGClassifier):
    """Braindecode's classifier whose parts follow from the estimator's arguments and from the data."""

    batches_ = class_weight_ = train_weight_ = None  # what the data say, once they are known

    def get_params_for(self, prefix):
        """Collect the arguments of a part of the net."""
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
            return {"weight": self.class_weight_, "train_weight": self.train_weight_, **kwargs}
        return kwargs

    def initialize_module(self):
        """Build the network."""
        module, options = resolve_module(self.module, self.fast), self.get_params_for("module")
        try:
            self.module_ = self.initialized_instance(module, options)
        except ValueError as error:  # Braindecode's models try themselves out when they are built
            sizes = getattr(self, "signal_args_", {})
            raise ValueError(
                f"module={self.module!r} cannot be built for signals of {sizes}; often its layers need longer trials. "
                f"It says: {error}"
            ) from error
        set_momentum(self.module_, options.get("batch_norm_momentum", self.batch_norm_momentum))
        if self.fast and isinstance(self.module, str):
            speed_up(self.module_)
        return self

    def initialize_optimizer(self, triggered_directly=None):
        """Build the optimiser, which may be given by its name."""
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
        """Set parameters."""
        params = check_names(params, self.get_params(deep=False))
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
        """Make the callbacks, taking back what earlier ones may have left on the network."""
        for _, callback in getattr(self, "callbacks_", ()):
            if isinstance(callback, Censor):
                callback.initialize()
        return super().initialize_callbacks()

    def check_data(self, X, y=None):
        """Do nothing: the data were checked before skorch saw them."""

    def _set_signal_args(self, X, y, classes):
        # Braindecode writes what it infers into the parameters, where a clone would inherit it.
        pass

    def _get_param_names(self):
        # skorch lists a private set among the parameters. Its printed order changes from process to process,
        # and with it the key under which MOABB looks for results.
        return [name for name in super()._get_param_names() if not name.startswith("_")]


def _without_scoring(callback):
    return _LossMean(**callback.get_params(deep=False)) if type(callback) is BatchScoring else callback
