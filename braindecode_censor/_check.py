"""Checks of user input. A leaf: imports nothing of this package."""

from difflib import get_close_matches
from numbers import Real

import numpy as np
import torch

__all__ = [
    "check_choice",
    "check_complete",
    "check_fraction",
    "check_positive",
    "check_size",
    "declares",
    "is_traced",
]


def check_choice(argument, value, choices):
    """Raise unless `value` is one of `choices`.

    Parameters
    ----------
    argument : str
        Name of the argument, for the message.
    value : object
        What the user passed.
    choices : iterable of str
        The valid names.

    Returns
    -------
    value : str
        The same value.
    """
    choices = sorted(choices)
    if value not in choices:
        near = get_close_matches(str(value), choices, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{argument}={value!r} is unknown; choose from {choices}.{hint}")
    return value


def check_positive(argument, value, or_zero=False):
    """Return `value` as float, raising unless it is a positive finite number.

    Parameters
    ----------
    argument : str
        Name of the argument, for the message.
    value : float
        What the user passed.
    or_zero : bool
        Whether zero will do.

    Returns
    -------
    value : float
        The same value.
    """
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not (0 < value < float("inf") or (or_zero and value == 0)):
        raise ValueError(f"{argument}={value!r} must be a positive number{' or zero' if or_zero else ''}.")
    return float(value)


def check_complete(argument, labels):
    """Raise unless every trial has a label and all labels can be told apart and ordered.

    Parameters
    ----------
    argument : str
        Name of the argument, for the message.
    labels : ndarray of shape (n_trials,)
        What the user passed.

    Returns
    -------
    labels : ndarray of shape (n_trials,)
        The same labels.
    """
    missing = np.array(
        [label is None or label != label for label in labels.tolist()], dtype=bool
    )  # NaN and NaT differ from themselves
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
    """Return `value` as float, raising unless it lies in (0, 1].

    Parameters
    ----------
    argument : str
        Name of the argument, for the message.
    value : float
        What the user passed.

    Returns
    -------
    value : float
        The same value.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value <= 1:
        raise ValueError(f"{argument}={value!r} must be a number in (0, 1].")
    return float(value)


def check_size(argument, value, minimum=1):
    """Return `value` as int, raising unless it is an integer of at least `minimum`.

    Parameters
    ----------
    argument : str
        Name of the argument, for the message.
    value : int
        What the user passed.
    minimum : int
        The smallest valid value.

    Returns
    -------
    value : int
        The same value.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < minimum:
        raise ValueError(f"{argument}={value!r} must be an integer of at least {minimum}.")
    return int(value)


def is_traced(*tensors):
    """Tell whether values may not be looked at: under ``torch.compile`` or ``torch.func.vmap``.

    Parameters
    ----------
    *tensors : Tensor or None
        What would be looked at.

    Returns
    -------
    traced : bool
        True when reading a value would break the graph or raise.
    """
    if torch.compiler.is_compiling():
        return True
    # torch offers no public question for "is this tensor inside vmap or grad"; this one has been stable since 2.0.
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return any(tensor is not None and is_wrapped(tensor) for tensor in tensors)


def is_own(*things):
    """Tell whether things are defined by this package.

    Parameters
    ----------
    *things : object
        Instances or functions; None is nobody's.

    Returns
    -------
    own : bool
        True if none is of a user's own class, and none has a method that somebody has replaced.
    """
    package = __name__.partition(".")[0]
    known = [thing for thing in things if thing is not None]
    own = all(thing.__module__.partition(".")[0] == package for thing in known)
    return own and not any(
        callable(getattr(type(thing), name, None)) for thing in known for name in vars(thing)
    )


def declares(thing, flag, method):
    """Tell whether a flag holds for a method: a class that writes the method anew has to set the flag anew.

    Parameters
    ----------
    thing : object
        Any object, maybe of a user's class.
    flag : str
        Name of an attribute.
    method : str
        Name of the method that the flag makes a promise about.

    Returns
    -------
    holds : bool
        True if the class that defines the method sets the flag, and the flag is true.
    """
    owner = next((kind for kind in type(thing).__mro__ if method in vars(kind)), object)
    return flag in vars(owner) and bool(getattr(thing, flag))
