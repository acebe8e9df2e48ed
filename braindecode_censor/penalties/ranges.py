"""How a search may choose an option's value. A leaf, so that a measure can say so in its class."""

from typing import NamedTuple

__all__ = ["Choice", "Range"]


class Range(NamedTuple):
    """Any number between two bounds."""

    low: float
    high: float
    log: bool = False
    when: tuple | None = None


class Choice(NamedTuple):
    """One of a few values."""

    values: tuple
    when: tuple | None = None
