"""Censoring modes: the columns of z, the labels and the direction of every term."""

from typing import NamedTuple

__all__ = ["MODES", "Mode", "Term"]


class Term(NamedTuple):
    """One application of a measure."""

    columns: slice  # of z
    direction: str  # "censor" or "reveal"


class Mode(NamedTuple):
    """A notion of independence between z and s."""

    conditions_on_y: bool
    halves: bool  # The first half of z is censored, the second reveals s.

    def terms(self, n_features):
        """Return the terms for a code of `n_features` columns."""
        if not self.halves:
            return (Term(slice(0, n_features), "censor"),)
        if n_features % 2:
            raise ValueError(
                f"mode='complementary' splits z into halves, so the number of features must be even, "
                f"got {n_features}: change the encoder's width, or use mode='marginal'."
            )
        middle = n_features // 2
        return Term(slice(0, middle), "censor"), Term(slice(middle, n_features), "reveal")


#: Name -> mode.
MODES = {
    "marginal": Mode(conditions_on_y=False, halves=False),
    "conditional": Mode(conditions_on_y=True, halves=False),
    "complementary": Mode(conditions_on_y=False, halves=True),
}
