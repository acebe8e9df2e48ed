"""Search spaces of single options; a leaf module, so that classes of measures can use them."""

from typing import NamedTuple

__all__ = ["Choice", "Range"]


class Range(NamedTuple):
    """A number between two bounds."""

    low: float
    high: float
    log: bool = False
    when: tuple | None = None  # (option, values): applies if that option has one of these values


class Choice(NamedTuple):
    """One of a few values."""

    values: tuple
    when: tuple | None = None
