"""The estimator's arguments: the paper's protocol, the names that can be chosen, and checks of what a user gave."""

import inspect
from difflib import get_close_matches
from numbers import Real

import torch
from braindecode import EEGClassifier
from braindecode.augmentation import AugmentedDataLoader
from skorch import NeuralNet, NeuralNetClassifier

from braindecode_censor._check import check_choice, check_positive, check_size
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.penalties.modes import MODES
from braindecode_censor.penalties.options import argument_of, options_of
from braindecode_censor.trials.normalize import NORMALIZATIONS

__all__ = [
    "KEEP",
    "PAPER",
    "SAMPLING",
    "SCHEDULES",
    "check_arguments",
    "check_names",
    "find_optimizer",
]

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
#: Names of learning-rate schedules.
SCHEDULES = ("one_cycle", "inverse_sqrt", "constant")
#: What may be kept of a training.
KEEP = ("last", "ema", "best")
#: How batches are drawn.
SAMPLING = ("balanced", "shuffle")

# What other parts of the package, or older versions, call an argument of the estimator.
_OTHER_NAMES = {
    "method": "penalty",
    "mode": "censoring",
    "score": "score_estimator",
    "standardize": "normalize, where 'trial_channel' is what True was and 'none' what False was",
    "subjects": "fit(X, y, subjects=...)",
}
# What skorch lets a user set part by part, such as ``module__F1``.
_PARTS = (
    "module",
    "criterion",
    "optimizer",
    "iterator_train",
    "iterator_valid",
    "callbacks",
    "dataset",
    "compile",
)


def check_names(given, own):
    """Raise unless every name is an argument of the estimator, or an option of a penalty."""
    hosts = (EEGClassifier, NeuralNetClassifier, NeuralNet)
    theirs = [name for host in hosts for name in inspect.signature(host.__init__).parameters]
    known = {*own, *theirs} - {"self", "args", "kwargs"}
    options = {name for method in MEASURES for name in options_of(method)} - known - _OTHER_NAMES.keys()
    arguments = {argument_of(name) if name in options else name: value for name, value in given.items()}
    for name, value in arguments.items():
        part, dots, _ = name.partition("__")
        if name in known or (dots and part in _PARTS):
            continue
        owner = f"CensoredEEGClassifier does not know {name}={value!r}"
        if name in _OTHER_NAMES:
            raise ValueError(f"{owner}: the word is {_OTHER_NAMES[name]}.")
        near = get_close_matches(name, [*known, *options, *_OTHER_NAMES], n=1)
        hint = f" Did you mean {_OTHER_NAMES.get(near[0], near[0])}?" if near else ""
        raise ValueError(f"{owner}.{hint}")
    return arguments


def check_arguments(clf):
    """Raise unless the arguments of training make sense."""
    check_choice("sampling", clf.sampling, SAMPLING)
    check_choice("censoring", clf.censoring, MODES)
    check_choice("normalize", clf.normalize, NORMALIZATIONS)
    check_choice("schedule", clf.schedule, SCHEDULES)
    check_choice("keep", clf.keep, KEEP)
    check_positive("prior", clf.prior, or_zero=True)
    if isinstance(clf.lr, bool) or not isinstance(clf.lr, Real) or not 0 <= clf.lr < float("inf"):
        raise ValueError(f"lr={clf.lr!r} must be a positive number.")
    if clf.max_epochs is None and clf.max_steps is None:
        raise ValueError(
            "max_epochs=None and max_steps=None: give at least one, or training would never end."
        )
    for name in ("max_epochs", "max_steps"):
        if getattr(clf, name) is not None:
            check_size(name, getattr(clf, name))
    if clf.valid_subject is None and (clf.keep == "best" or clf.patience is not None):
        reason = "keep='best'" if clf.keep == "best" else f"patience={clf.patience!r}"
        raise ValueError(
            f"{reason} needs people who validate, and valid_subject=None: name one or several, pass "
            "valid_subject='rotate', or use keep='last' without patience."
        )
    if clf.train_split is not None:
        raise ValueError("train_split is not used here: choose the validation trials with valid_subject.")
    _check_parts(clf)


def _check_parts(clf):
    _check_optimizer(clf)
    for name in ("criterion", "iterator_train", "iterator_valid"):
        if isinstance(value := getattr(clf, name), str):
            raise ValueError(
                f"{name}={value!r} must be a class, not a name; leave it out for the estimator's own."
            )
        _check_part_options(clf, name, value)
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
    """Make the optimiser of one number, because only itself knows which options it takes."""
    kind, options = find_optimizer(clf.optimizer), _options_of_part(clf, "optimizer")
    options = {name: value for name, value in options.items() if not name.startswith("param_groups")}
    try:
        kind([torch.nn.Parameter(torch.zeros(1))], **{"lr": clf.lr, **options})
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"optimizer={clf.optimizer!r} cannot be made with lr={clf.lr!r} and {options}: {error}."
        ) from None


def _check_part_options(clf, part, kind):
    if not isinstance(kind, type):
        return
    known = {name for cls in kind.__mro__ for name in inspect.signature(cls.__init__).parameters}
    for name, value in _options_of_part(clf, part).items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {part}__{near[0]}?" if near else ""
            raise ValueError(f"{part}__{name}={value!r} is no option of {kind.__name__}.{hint}")


def _options_of_part(clf, part):
    """Return what the user set by names such as ``optimizer__momentum``."""
    prefix = f"{part}__"
    return {name.removeprefix(prefix): value for name, value in vars(clf).items() if name.startswith(prefix)}


def find_optimizer(optimizer):
    """Return the class of an optimiser."""
    if not isinstance(optimizer, str):
        return optimizer
    kinds = [
        name for name, kind in vars(torch.optim).items() if inspect.isclass(kind) and name != "Optimizer"
    ]
    return getattr(torch.optim, check_choice("optimizer", optimizer, kinds))
