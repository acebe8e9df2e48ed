"""Checks of user input. A leaf: imports nothing of this package."""

from difflib import get_close_matches
from numbers import Real

import torch

__all__ = [
    "check_choice",
    "check_complete",
    "check_fraction",
    "check_keywords",
    "check_positive",
    "check_size",
    "is_traced",
]

# Words that the callback and the factory do not know, and what they call it.
_OTHER_WORDS = {
    "censoring": "mode",
    "lambda_": "weight",
    "measure": "method",
    "penalty": "method",
    "score_estimator": "score",
}


def _suggest(word, choices):
    """A hint at the choice that a wrong word was probably meant to be."""
    by_lower = {str(choice).lower(): choice for choice in choices}
    near = get_close_matches(str(word).lower(), by_lower, n=1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def check_choice(argument, value, choices):
    """Raise unless `value` is one of `choices`."""
    choices = sorted(choices)
    if value not in choices:
        raise ValueError(f"{argument}={value!r} is unknown; choose from {choices}.{_suggest(value, choices)}")
    return value


def check_keywords(owner, given, known=None):
    """Raise for a keyword that nobody knows, naming the right word."""
    for name, value in given.items():
        if known is not None and name in known:
            continue
        if name in _OTHER_WORDS:
            raise ValueError(
                f"{owner} does not know {name}={value!r}: the word is {_OTHER_WORDS[name]}={value!r}."
            )
        if known is not None:
            names = sorted(known)
            raise ValueError(
                f"{owner} does not know {name}={value!r}; its options are {names}.{_suggest(name, names)}"
            )


def check_positive(argument, value, or_zero=False):
    """Return `value` as float, raising unless it is a positive finite number."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not (0 < value < float("inf") or (or_zero and value == 0)):
        raise ValueError(f"{argument}={value!r} must be a positive number{' or zero' if or_zero else ''}.")
    return float(value)


def check_complete(argument, labels):
    """Raise unless every trial has a label and all labels can be told apart and ordered."""
    import numpy as np  # here, because the penalties need nothing but torch

    # NaN and NaT differ from themselves
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
    """Tell whether values may not be looked at: under ``torch.compile`` or ``torch.func.vmap``."""
    if torch.compiler.is_compiling():
        return True
    # torch offers no public question for "is this tensor inside vmap or grad"; this one has been stable since 2.0.
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return any(tensor is not None and is_wrapped(tensor) for tensor in tensors)
