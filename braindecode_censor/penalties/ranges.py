"""How a search may choose an option's value. A leaf, so that a measure can say so in its class."""

from typing import NamedTuple

__all__ = ["Choice", "Range"]


class Range(NamedTuple):
    """Any number between two bounds.

    Parameters
    ----------
    low, high : float
        Smallest and largest value.
    log : bool
        Whether the search looks at orders of magnitude.
    when : tuple of (str, tuple) or None
        Name of another option and the values of it with which this one has a meaning; None is always.
    """

    low: float
    high: float
    log: bool = False
    when: tuple | None = None


class Choice(NamedTuple):
    """One of a few values.

    Parameters
    ----------
    values : tuple
        The values: strings, numbers or booleans.
    when : tuple of (str, tuple) or None
        Name of another option and the values of it with which this one has a meaning; None is always.
    """

    values: tuple
    when: tuple | None = None
