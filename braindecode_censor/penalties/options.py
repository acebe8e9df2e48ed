"""The options of every censoring method: one table for factory, callback, estimator, grid, YAML, Optuna and tables.

An option is written once, in the class of its measure: as an argument of the constructor and, if a search is to choose
its value, in the class's ``search_space``. This goes for a measure of your own as for those of the package::

    class Sharp(Measure):
        search_space = {"weight": Range(0.01, 1.0, log=True), "sharpness": Range(0.5, 4.0), "kind": Choice(("a", "b"))}

        def __init__(self, *sizes, sharpness=1.0, kind="a", **options): ...

    MEASURES["sharp"] = Sharp

``options_of(method)``
    All options of a method, name -> :class:`Option`. ``option.argument`` is the estimator's name for it, and
    ``option.search`` a :class:`Range`, a :class:`Choice`, or None where no search selects a value.
``search_space_of(method)``
    What a search selects, name -> Range or Choice: "mode" and "weight" first, then the method's own, in an order in
    which an option comes after the one that its ``when`` names.
``is_wanted(search, params)``
    Whether an option has a meaning beside the values that were selected before it.
``estimator_arguments(entry)``
    From an entry of a grid, such as ``{"method": "mige", "mode": "marginal", "score": "nu"}``, to the arguments of
    :class:`~braindecode_censor.CensoredEEGClassifier`, which takes options as ``penalty__<name>``.
"""

import inspect
from functools import cache
from typing import NamedTuple

from braindecode_censor._check import check_choice
from braindecode_censor.numerics.scores import SCORES
from braindecode_censor.penalties.measures import MEASURES, Measure
from braindecode_censor.penalties.modes import MODES
from braindecode_censor.penalties.ranges import Choice, Range

__all__ = [
    "Choice",
    "Option",
    "Range",
    "argument_of",
    "estimator_arguments",
    "is_wanted",
    "options_of",
    "search_space_of",
]

# Words of a grid that are arguments of the estimator. All others are nested, as ``penalty__<name>``.
_ARGUMENTS = {"method": "penalty", "mode": "censoring", "weight": "weight"}
# What every method takes beside the options of its measure.
_COMMON = ("mode", "weight", "warmup", "critic_lr", "critic_steps", "reveal")
# Arguments of a measure that follow from the data and the mode.
_SIZES = {"n_features", "n_subjects", "n_classes", "nuisance"}


class Option(NamedTuple):
    """An option of a censoring method."""

    name: str
    argument: str
    search: Range | Choice | None


def argument_of(name):
    """Return the estimator's argument for a word of the grid."""
    return _ARGUMENTS.get(name, f"penalty__{name}")


def estimator_arguments(entry):
    """Turn an entry of a grid into arguments of the estimator."""
    valid_names = options_of(entry["method"])
    for name in entry.keys() - {"method"}:
        check_choice(f"option of method={entry['method']!r}", name, valid_names)
    return {argument_of(name): value for name, value in entry.items()}


def options_of(method):
    """Return all options of a method."""
    measure = MEASURES[check_choice("method", method, MEASURES)]
    space = search_space_of(method)
    names = dict.fromkeys([*_COMMON, *space, *measure_options(measure)])
    return {name: Option(name, argument_of(name), space.get(name)) for name in names}


def search_space_of(method):
    """Return the search space of a method: name -> Range or Choice."""
    measure = MEASURES[check_choice("method", method, MEASURES)]
    common = {"mode": Choice(tuple(MODES)), "weight": Range(0.001, 10.0, log=True)}
    return common | dict(getattr(measure, "search_space", {}))


def is_wanted(search, params):
    """Return whether an option has a meaning beside the values that were selected before it."""
    if search.when is None:
        return True
    name, values = search.when
    return params.get(name) in values


def measure_options(make):
    """Return the names of the options that a measure takes."""
    return list(_measure_options(make, tuple(SCORES.values())))


@cache  # Every estimator's constructor calls it, and reading signatures takes longer than the rest of it.
def _measure_options(make, scores):
    names = {}
    for base in inspect.getmro(make) if inspect.isclass(make) else (make,):
        if base is object or not (base is make or issubclass(base, Measure)):
            continue
        for name, parameter in inspect.signature(base).parameters.items():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                names[name] = None
            elif name == "score_keywords":  # The measure passes these on to the score estimator.
                for score in scores:
                    names |= dict.fromkeys(inspect.signature(score).parameters)
    return tuple(name for name in names if name not in _SIZES)
