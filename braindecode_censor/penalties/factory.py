"""Factory of penalties from a name and options, with checks of the arguments."""

import copy
import inspect

from braindecode_censor._check import check_choice, check_keywords, check_size
from braindecode_censor.penalties.measures import MEASURES, Measure
from braindecode_censor.penalties.modes import MODES
from braindecode_censor.penalties.options import measure_options
from braindecode_censor.penalties.penalty import Penalty

__all__ = ["make_penalty"]


def make_penalty(
    method,
    mode="marginal",
    *,
    n_features=None,
    n_subjects=None,
    n_classes=None,
    nuisance="discrete",
    reveal=1.0,
    **options,
):
    """Make a censoring penalty.

    Parameters
    ----------
    method : {"adv", "mige", "mmd", "pairmmd", "began"}, Measure or callable
        Measure of dependence: a name of :data:`~braindecode_censor.penalties.measures.MEASURES`, a measure, or a
        callable that makes one from ``(n_features, n_subjects, n_classes, **options)``.
    mode : {"marginal", "conditional", "complementary"}
        Make z independent of s, independent of s given y, or its first half independent of s and its second
        half informative about s.
    n_features : int, optional
        Width of z. The methods with a critic ("adv", "began") need it.
    n_subjects : int, optional
        Number of subjects. The methods with a critic need it; the others count them in each batch when it is
        omitted, which ``torch.compile`` and ``torch.func.vmap`` do not allow.
    n_classes : int, optional
        Number of classes, for the conditional mode; likewise.
    nuisance : {"discrete", "continuous"}
        Type of s: labels or real values (age, fatigue, ...). "mmd", "mige" and "adv" support both.
    reveal : float
        In complementary mode, weight of the half that reveals s, relative to the censored half. The paper uses 1;
        with 0 the second half is free.
    **options
        Options of the measure, such as `reduction`, `min_trials`, `lengthscale`, `score`, `reg`, `pairs`,
        `fraction`, `size`, `gamma`, `beta`, `hidden`.

    Returns
    -------
    penalty : Penalty
        A module: ``penalty(z, s, y)``.

    Examples
    --------
    >>> import torch
    >>> penalty = make_penalty("mmd", mode="conditional", n_subjects=2, n_classes=2)
    >>> z, s, y = torch.randn(16, 4), torch.arange(16) % 2, torch.arange(16) // 8
    >>> penalty(z, s, y).shape
    torch.Size([])
    """
    check_choice("mode", mode, MODES)
    check_choice("nuisance", nuisance, ("discrete", "continuous"))
    sizes = {"n_features": n_features, "n_subjects": n_subjects, "n_classes": n_classes}
    for name, minimum in (("n_features", 1), ("n_subjects", 2), ("n_classes", 1)):
        if sizes[name] is not None:
            minimum = 1 if nuisance == "continuous" else minimum
            sizes[name] = check_size(name, sizes[name], minimum)
    if not MODES[mode].conditions_on_y:
        sizes["n_classes"] = None
    n_terms = 2 if MODES[mode].halves else 1
    if n_features is not None:
        MODES[mode].terms(n_features)  # raises for an odd width in complementary mode
        sizes["n_features"] = n_features // n_terms
    measures = _make_measures(method, mode, nuisance, sizes, options, n_terms)
    return Penalty(measures, mode, sizes["n_subjects"], sizes["n_classes"], nuisance, reveal)


def _make_measures(method, mode, nuisance, sizes, options, n_terms):
    """Return one measure per term of the mode, each with a separate critic if it has one."""
    if isinstance(method, Measure):
        if options:
            raise ValueError(f"method is a measure already, so its options {sorted(options)} have no effect.")
        _check_measure(method, mode, nuisance, sizes)
        return [method, *(copy.deepcopy(method) for _ in range(n_terms - 1))]
    make = method if callable(method) else MEASURES[check_choice("method", method, MEASURES)]
    if nuisance not in getattr(make, "nuisances", (nuisance,)):
        names = sorted(name for name, measure in MEASURES.items() if nuisance in measure.nuisances)
        raise ValueError(f"method={method!r} does not support nuisance={nuisance!r}: choose from {names}.")
    if getattr(make, "has_critic", False):
        _check_sizes(method, mode, nuisance, sizes)
    if inspect.isclass(make):
        check_keywords(f"make_penalty({method!r})", options, measure_options(make))
    return [make(**sizes, nuisance=nuisance, **options) for _ in range(n_terms)]


def _check_sizes(method, mode, nuisance, sizes):
    """Raise if a size of the critic is missing."""
    required = ["n_features"]
    required += ["n_subjects"] if nuisance == "discrete" else []
    required += ["n_classes"] if MODES[mode].conditions_on_y else []
    missing = [name for name in required if sizes[name] is None]
    if missing:
        raise ValueError(
            f"method={method!r} with mode={mode!r} trains a network and needs its size: "
            f"pass {' and '.join(missing)}."
        )


def _check_measure(measure, mode, nuisance, sizes):
    """Raise if a measure was made for another nuisance, width or mode."""
    if measure.nuisance != nuisance or nuisance not in measure.nuisances:
        raise ValueError(
            f"method is a measure of a {measure.nuisance} nuisance, but nuisance={nuisance!r}: make them equal."
        )
    if not measure.has_critic:
        return
    for name in ("n_features", "n_subjects", "n_classes"):
        size, required = getattr(measure, name), sizes[name]
        if size != required and (required is not None or name == "n_classes"):
            raise ValueError(
                f"method is a measure made with {name}={size}, but mode={mode!r} needs {name}={required} "
                "(in complementary mode n_features is that of half of z)."
            )
