"""Checks of user input. A leaf: imports nothing of this package."""

from difflib import get_close_matches
from numbers import Integral, Real

import torch

__all__ = [
    "PlainAttributes",
    "check_choice",
    "check_complete",
    "check_count",
    "check_finite_number",
    "check_fraction",
    "check_keywords",
    "check_parameters",
    "check_positive",
    "check_size",
    "check_word",
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
_LABELS = "give all labels one type, text or numbers, for instance with map(str, labels)."


class PlainAttributes:
    """Mixin whose attributes hold Python's scalars, not NumPy's, which JSON and torch's generators refuse."""

    def __setattr__(self, name, value):
        super().__setattr__(name, _as_plain(value))


def _as_plain(value):
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()
    return value.item() if is_scalar else value


def suggest(word, choices):
    """Return a hint at the choice that is spelled most like a wrong word."""
    by_lower = {str(choice).lower(): choice for choice in choices}
    near = get_close_matches(str(word).lower(), by_lower, n=1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def check_choice(argument, value, choices):
    """Raise unless `value` is one of `choices`."""
    choices, value = sorted(choices), _as_plain(value)
    if not isinstance(value, tuple(map(type, choices))) or value not in choices:
        hint = suggest(value, choices) if isinstance(value, str) else ""
        raise ValueError(f"{argument}={value!r} is unknown; choose from {choices}.{hint}")
    return value


def check_word(argument, value):
    """Return `value`, raising unless it is a text."""
    if not isinstance(value, str):
        raise ValueError(f"{argument}={value!r} must be a text.")
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


def _is_number(value, kind=Real):
    return isinstance(value, kind) and not isinstance(value, bool)


def check_finite_number(argument, value):
    """Return `value` as float, raising unless it is a finite number."""
    if not _is_number(value) or not abs(value) < float("inf"):
        raise ValueError(f"{argument}={value!r} must be a finite number.")
    return float(value)


def check_positive(argument, value, or_zero=False):
    """Return `value` as float, raising unless it is a positive finite number."""
    if not _is_number(value) or not (0 < value < float("inf") or (or_zero and value == 0)):
        raise ValueError(f"{argument}={value!r} must be a positive number{' or zero' if or_zero else ''}.")
    return float(value)


def check_complete(argument, labels):
    """Return labels as an array, raising unless all are of one type that JSON can hold and none is missing."""
    import numpy as np  # The penalties need nothing but torch.
    import pandas as pd

    array = np.asarray(labels)
    if array.dtype.kind not in "biufUO":
        raise ValueError(f"{argument} has the type {array.dtype}: {_LABELS}")
    missing = np.asarray(pd.isna(array))
    if missing.any():
        raise ValueError(
            f"{argument} has missing values, first in trial {np.flatnonzero(missing)[0]}: every trial needs a label."
        )
    # NumPy turns a list of truth values, numbers and texts silently into one type.
    values = [*array.tolist(), *(labels if isinstance(labels, (list, tuple)) else ())]
    plain = (value.item() if isinstance(value, np.generic) else value for value in values)
    types = sorted({type(value).__name__ for value in plain} - {"Tensor"})
    if len(types) > 1 and types != ["float", "int"]:
        raise ValueError(f"{argument} mixes {' and '.join(types)}: {_LABELS}")
    if not set(types) <= {"bool", "float", "int", "str"}:
        raise ValueError(f"{argument} holds objects of type {types[0]}: {_LABELS}")
    if types == ["str"] and any("\ud800" <= letter <= "\udfff" for letter in set("".join(array.tolist()))):
        raise ValueError(f"{argument} has a label with half a character (a lone surrogate): {_LABELS}")
    return array


def check_fraction(argument, value):
    """Return `value` as float, raising unless it lies in (0, 1]."""
    if not _is_number(value) or not 0 < value <= 1:
        raise ValueError(f"{argument}={value!r} must be a number in (0, 1].")
    return float(value)


def check_size(argument, value, minimum=1):
    """Return `value` as int, raising unless it is an integer of at least `minimum`."""
    if not _is_number(value, Integral) or not minimum <= value < 2**32:
        raise ValueError(f"{argument}={value!r} must be an integer of at least {minimum}, and below 2**32.")
    return int(value)


def check_count(argument, value):
    """Return `value`, a number of jobs, raising unless it is an integer that is not zero."""
    if not _is_number(value, Integral) or value == 0:
        raise ValueError(f"{argument}={value!r} must be an integer, -1 for one per core.")
    return int(value)


def is_traced(*tensors):
    """Return whether values cannot be read, as under ``torch.compile`` and ``torch.func.vmap``."""
    if torch.compiler.is_compiling():
        return True
    # torch has no public function for this; the private one has been stable since 2.0.
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return any(tensor is not None and is_wrapped(tensor) for tensor in tensors)
