"""Kernel estimators of the score, the gradient of a log density, from samples."""

from functools import partial
from inspect import signature

from braindecode_censor._check import check_choice
from braindecode_censor.numerics.scores.base import ScoreEstimator
from braindecode_censor.numerics.scores.nu import NuMethod
from braindecode_censor.numerics.scores.spectral import SSGE
from braindecode_censor.numerics.scores.stein import Stein
from braindecode_censor.numerics.scores.tikhonov import Tikhonov

__all__ = ["SCORES", "SSGE", "NuMethod", "ScoreEstimator", "Stein", "Tikhonov", "make_score"]

#: Name -> estimator; add your own. "mige" in the paper's table is SSGE with the threshold of the MIGE paper.
SCORES = {
    "ssge": SSGE,
    "mige": partial(SSGE, ratio=0.99),
    "stein": Stein,
    "tikhonov": Tikhonov,
    "nu": NuMethod,
}


def make_score(score="ssge", **options):
    """Return the score estimator of that name; an object is returned as it is.

    Parameters
    ----------
    score : {"ssge", "mige", "stein", "tikhonov", "nu"} or object
        Name, or anything with methods ``fit(x, same)`` and ``at_samples()``.
    **options
        Options of the estimator: `kernel` and `lengthscale` for all, `ratio` or `n_eigen` for "ssge" and
        "mige", `reg` for the others.

    Returns
    -------
    score : ScoreEstimator
        The estimator, not fitted.

    Examples
    --------
    >>> import torch
    >>> x = torch.randn(256, 2, generator=torch.Generator().manual_seed(0))
    >>> slope = (make_score("nu", reg=1e-3).fit(x).at_samples() * -x).sum() / (x * x).sum()
    >>> bool(0.8 < slope < 1.2)  # the score of a standard normal is -x
    True
    """
    if hasattr(score, "fit") and hasattr(score, "at_samples"):
        if options:
            raise ValueError(f"score is an object already, so its options {sorted(options)} have no effect.")
        return score
    make = SCORES[check_choice("score", score, SCORES)]
    if score in ("ssge", "mige") and options.get("reg") is not None:
        raise ValueError(f"reg has no meaning for score={score!r}: set ratio= or n_eigen=.")
    for name in options:
        check_choice(f"option of score={score!r}", name, signature(make).parameters)
    return make(**{name: value for name, value in options.items() if value is not None})
