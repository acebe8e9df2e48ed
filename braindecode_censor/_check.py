"""Checks of user input. A leaf: imports nothing of this package."""

from difflib import get_close_matches
from numbers import Real

import torch

__all__ = [
    "check_choice",
    "check_complete",
    "check_finite_number",
    "check_fraction",
    "check_keywords",
    "check_parameters",
    "check_positive",
    "check_size",
    "is_traced",
    "optional",
    "suggest",
]

# Names that are valid elsewhere in the package -> their names in the callback and the factory.
_OTHER_WORDS = {
    "censoring": "mode",
    "lambda_": "weight",
    "measure": "method",
    "penalty": "method",
    "score_estimator": "score",
}


def suggest(word, choices):
    """Return a hint at the choice that is spelled most like a wrong word."""
    by_lower = {str(choice).lower(): choice for choice in choices}
    near = get_close_matches(str(word).lower(), by_lower, n=1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def check_choice(argument, value, choices):
    """Raise unless `value` is one of `choices`."""
    choices = sorted(choices)
    if value not in choices:
        raise ValueError(f"{argument}={value!r} is unknown; choose from {choices}.{suggest(value, choices)}")
    return value


def check_keywords(owner, options, valid_names=None):
    """Raise for an option that is not in `valid_names`, or that has another name here."""
    for name, value in options.items():
        if valid_names is not None and name in valid_names:
            continue
        if name in _OTHER_WORDS:
            raise ValueError(
                f"{owner} does not know {name}={value!r}: the word is {_OTHER_WORDS[name]}={value!r}."
            )
        if valid_names is not None:
            names = sorted(valid_names)
            raise ValueError(
                f"{owner} does not know {name}={value!r}; its options are {names}.{suggest(name, names)}"
            )


def check_parameters(owner, constraints):
    """Raise unless all attributes are valid; `constraints` maps a name to its check and the check's arguments."""
    for name, (check, *options) in constraints.items():
        check(name, getattr(owner, name), *options)


def optional(check):
    """Return a check that also accepts None."""
    return lambda argument, value, *options: None if value is None else check(argument, value, *options)


def check_finite_number(argument, value):
    """Return `value` as float, raising unless it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not abs(value) < float("inf"):
        raise ValueError(f"{argument}={value!r} must be a finite number.")
    return float(value)


def check_positive(argument, value, or_zero=False):
    """Return `value` as float, raising unless it is a positive finite number."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not (0 < value < float("inf") or (or_zero and value == 0)):
        raise ValueError(f"{argument}={value!r} must be a positive number{' or zero' if or_zero else ''}.")
    return float(value)


def check_complete(argument, labels):
    """Raise unless every trial has a label and all labels are of one type."""
    import numpy as np  # The penalties need nothing but torch.

    # NaN and NaT differ from themselves.
    missing = np.array([label is None or label != label for label in labels.tolist()], dtype=bool)
    if missing.any():
        raise ValueError(
            f"{argument} has missing values, first in trial {np.flatnonzero(missing)[0]}: every trial needs a label."
        )
    try:
        np.unique(labels)
    except TypeError:
        names = " and ".join(sorted({type(label).__name__ for label in labels}))
        raise ValueError(
            f"{argument} mixes {names}: give all labels one type, for instance with map(str, labels)."
        ) from None
    return labels


def check_fraction(argument, value):
    """Return `value` as float, raising unless it lies in (0, 1]."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value <= 1:
        raise ValueError(f"{argument}={value!r} must be a number in (0, 1].")
    return float(value)


def check_size(argument, value, minimum=1):
    """Return `value` as int, raising unless it is an integer of at least `minimum`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < minimum:
        raise ValueError(f"{argument}={value!r} must be an integer of at least {minimum}.")
    return int(value)


def is_traced(*tensors):
    """Return whether values cannot be read, as under ``torch.compile`` and ``torch.func.vmap``."""
    if torch.compiler.is_compiling():
        return True
    # torch has no public function for this; the private one has been stable since 2.0.
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return any(tensor is not None and is_wrapped(tensor) for tensor in tensors)
