"""Arguments of the estimator: the paper's protocol, valid names and values."""

import inspect

import torch
from braindecode import EEGClassifier
from braindecode.augmentation import AugmentedDataLoader
from skorch import NeuralNet, NeuralNetClassifier
from skorch.utils import params_for

from braindecode_censor._check import (
    check_choice,
    check_finite_number,
    check_parameters,
    check_positive,
    check_size,
    check_word,
    optional,
    suggest,
)
from braindecode_censor.penalties.modes import MODES
from braindecode_censor.storage.keys import as_plain
from braindecode_censor.trials.normalizations import NORMALIZATIONS

__all__ = ["NET_ARGUMENTS", "PAPER", "check_arguments", "check_names", "find_optimizer"]

#: The paper's protocol as keyword arguments of :class:`~braindecode_censor.CensoredEEGClassifier`.
PAPER = {
    "censoring": "marginal",
    "weight": 1.0,
    "normalize": "trial_channel",
    "augment": None,
    "schedule": "inverse_sqrt",
    "lr": 1e-3,
    "max_epochs": 500,
    "max_steps": None,
    "keep": "best",
    "valid_subject": "rotate",
}
# Argument -> its check, and the check's further arguments.
_CONSTRAINTS = {
    "censoring": (check_choice, MODES),
    "weight": (check_finite_number,),
    "layer": (check_word,),
    "normalize": (check_choice, NORMALIZATIONS),
    "prior": (check_positive, True),
    "sampling": (check_choice, ("balanced", "shuffle")),
    "subjects_per_batch": (optional(check_size),),
    "class_weighted": (check_choice, (False, True)),
    "schedule": (check_choice, ("one_cycle", "inverse_sqrt", "constant")),
    "lr": (check_positive, True),
    "max_steps": (optional(check_size),),
    "max_epochs": (optional(check_size),),
    "keep": (check_choice, ("last", "ema", "best")),
    "patience": (optional(check_size),),
    "batch_norm_momentum": (optional(check_positive), True),
    "fast": (check_choice, (False, True)),
    "batch_size": (check_size,),
    "random_state": (optional(check_size), 0),
}
#: Arguments of the nets that the estimator inherits from.
NET_ARGUMENTS = {
    name
    for net in (EEGClassifier, NeuralNetClassifier, NeuralNet)
    for name in inspect.signature(net.__init__).parameters
} - {"self", "args", "kwargs"}
# Names that other parts of the package use for an argument of the estimator.
_OTHER_NAMES = {
    "method": "penalty",
    "mode": "censoring",
    "score_estimator": "penalty__score",
    "subjects": "fit(X, y, subjects=...)",
}
# Components of skorch with nested parameters, such as ``module__F1``; the estimator adds the penalty.
_COMPONENTS = {"module", "criterion", "optimizer", "iterator_train", "iterator_valid", "callbacks", "dataset"}
_COMPONENTS |= {"compile", "penalty"}


def check_names(params, names):
    """Return keyword arguments with NumPy scalars as Python's; raise for one that is neither in `names` nor nested."""
    names = {*names, *NET_ARGUMENTS}
    for name, value in params.items():
        component, is_nested, _ = name.partition("__")
        if name in names or (is_nested and component in _COMPONENTS):
            continue
        other_names = _penalty_arguments() | _OTHER_NAMES
        message = f"CensoredEEGClassifier does not know {name}={value!r}"
        if name in other_names:
            raise ValueError(f"{message}: pass {other_names[name]}.")
        raise ValueError(f"{message}.{suggest(name, [*names, *other_names])}")
    return {name: as_plain(value) for name, value in params.items()}


def _penalty_arguments():
    """Return the estimator's argument for every option of a penalty."""
    from braindecode_censor.penalties.measures import MEASURES
    from braindecode_censor.penalties.options import argument_of, options_of

    return {name: argument_of(name) for method in MEASURES for name in options_of(method)}


def check_arguments(clf):
    """Raise unless the arguments of training are valid, alone and together."""
    check_parameters(clf, _CONSTRAINTS)
    if clf.max_epochs is None and clf.max_steps is None:
        raise ValueError(
            "max_epochs=None and max_steps=None: pass at least one, or training would never end."
        )
    if clf.valid_subject is None and (clf.keep == "best" or clf.patience is not None):
        reason = "keep='best'" if clf.keep == "best" else f"patience={clf.patience!r}"
        raise ValueError(
            f"{reason} needs a validation subject, and valid_subject=None: pass a label, a list of labels or "
            "valid_subject='rotate', or use keep='last' without patience."
        )
    if clf.train_split is not None:
        raise ValueError("train_split is not used here: choose the validation trials with valid_subject.")
    if isinstance(clf.penalty, str):
        from braindecode_censor.penalties.options import options_of

        _check_nested(clf, "penalty", set(options_of(clf.penalty)) - {"mode", "weight"})
    _check_components(clf)


def _check_components(clf):
    _check_optimizer(clf)
    for name in ("criterion", "iterator_train", "iterator_valid"):
        if isinstance(value := getattr(clf, name), str):
            raise ValueError(
                f"{name}={value!r} must be a class, not a name; omit it for the estimator's own."
            )
        if isinstance(value, type):
            classes = [cls.__init__ for cls in value.__mro__]
            _check_nested(
                clf, name, {name for init in classes for name in inspect.signature(init).parameters}
            )
    loader = clf.iterator_train
    if isinstance(loader, type) and issubclass(loader, AugmentedDataLoader):
        raise ValueError(
            "iterator_train=AugmentedDataLoader: trials stay on the device and come from the estimator's own loader. "
            "Pass the transforms as augment=[...] instead."
        )
    try:
        torch.device(clf.device)
    except (RuntimeError, TypeError):
        raise ValueError(f"device={clf.device!r} is unknown; use 'cpu' or 'cuda'.") from None


def _check_optimizer(clf):
    """Build the optimizer for one number, because only the optimizer itself knows its valid options."""
    optimizer = find_optimizer(clf.optimizer)
    options = {"lr": clf.lr, **params_for("optimizer", vars(clf))}
    options = {name: value for name, value in options.items() if not name.startswith("param_groups")}
    if optimizer is torch.optim.AdamW and options.keys() == {"lr"}:
        return
    try:
        optimizer([torch.nn.Parameter(torch.zeros(1))], **options)
    except (TypeError, ValueError) as error:
        raise ValueError(f"optimizer={clf.optimizer!r} cannot be made with {options}: {error}.") from None


def _check_nested(clf, component, names):
    for name, value in params_for(component, vars(clf)).items():
        if name not in names:
            raise ValueError(
                f"{component}__{name}={value!r} is no option of {component}={getattr(clf, component)!r}; its options "
                f"are {sorted(names)}.{suggest(name, names)}"
            )


def find_optimizer(optimizer):
    """Return the class of an optimizer."""
    if not isinstance(optimizer, str):
        return optimizer
    names = [
        name for name, value in vars(torch.optim).items() if inspect.isclass(value) and name != "Optimizer"
    ]
    return getattr(torch.optim, check_choice("optimizer", optimizer, names))
