"""Grids of configurations: the paper's table of hyper-parameters, a short one for laptops, and your own."""

from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from textwrap import shorten

import torch
import yaml

from braindecode_censor._check import check_choice, check_keywords, check_positive, check_size
from braindecode_censor.penalties.factory import make_penalty
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.penalties.modes import MODES
from braindecode_censor.penalties.options import estimator_arguments, options_of

__all__ = [
    "BASELINE",
    "METHODS",
    "PAPER_GRID",
    "PRESETS",
    "QUICK_GRID",
    "PenaltyConfig",
    "Preset",
    "expand",
    "get_preset",
]

#: The paper's five, in its order.
METHODS = ("adv", "mige", "mmd", "pairmmd", "began")
_MODES = ["marginal", "conditional", "complementary"]
_SMALL = [1.0, 0.3, 0.1, 0.03, 0.01]
_LARGE = [1.0, 3.0, 10.0, 30.0, 100.0]
_MAX_SIZE = 100_000  # configurations of a grid; more would fill the memory before anything is trained
_PAIRS = [{"pairs": "bernoulli", "fraction": 0.5}, {"pairs": "clique", "size": 4}]

#: The paper's table. Its score estimator "MIGE" is the SSGE that the MIGE authors use, so it is no row of its
#: own; the text varies γ and the length scale for the three alternatives to SSGE alone; b and d of PairMMD
#: are not given there.
PAPER_GRID = [
    {"method": ["adv", "began"], "mode": _MODES, "weight": _SMALL},
    {"method": "mmd", "mode": _MODES, "weight": _LARGE},
    *({"method": "pairmmd", "mode": _MODES, "weight": _LARGE, **pairs} for pairs in _PAIRS),
    {"method": "mige", "mode": _MODES, "weight": _SMALL, "score": "ssge"},
    {
        "method": "mige",
        "mode": _MODES,
        "weight": _SMALL,
        "score": ["nu", "tikhonov", "stein"],
        "reg": [0.01, 0.001, 0.0001],
        "lengthscale": ["median", "tsne"],
    },
]
#: Two weights per method and mode. They reach lower than the paper's: under the mean over subjects an MMD
#: weight of ten and more destroys the task on small recordings.
QUICK_GRID = [
    {"method": "adv", "mode": _MODES, "weight": [0.01, 0.1]},
    {"method": "mige", "mode": _MODES, "weight": [0.01, 0.1], "score": "ssge"},
    {"method": "mmd", "mode": _MODES, "weight": [0.1, 1.0]},
    {"method": "pairmmd", "mode": _MODES, "weight": [0.1, 1.0], **_PAIRS[0]},
    {"method": "began", "mode": _MODES, "weight": [0.01, 0.1]},
]


@dataclass(frozen=True)
class PenaltyConfig:
    """A configuration: a censoring method, a mode, a penalty weight and the options of the method."""

    method: str
    mode: str | None = None
    weight: float = 0.0
    options: tuple = ()

    @property
    def name(self):
        """Short and unique among all configurations."""
        if self.method == "baseline":
            return self.method
        words = [_word(key, value) for key, value in self.options]
        return "-".join([self.method, self.mode, f"{self.weight:.12g}", *words])

    def parameters(self):
        """Return the arguments of :class:`~braindecode_censor.CensoredEEGClassifier`."""
        if self.method == "baseline":
            return {"penalty": None}
        return estimator_arguments(self.as_dict())

    def as_dict(self):
        """Return the configuration as an entry of a grid."""
        if self.method == "baseline":
            return {"method": "baseline"}
        return {"method": self.method, "mode": self.mode, "weight": self.weight, **dict(self.options)}


# Options of the package whose values differ from each other, so that a name can do without the option's.
_NAMED_BY_VALUE = ("score", "lengthscale", "pairs")


def _word(key, value):
    if isinstance(value, str):
        # The values of the package's options are unique; two options of a user's measure may share a value.
        return value if key in _NAMED_BY_VALUE else f"{key}={value}"
    return f"{key}{value:.12g}"


#: The uncensored baseline.
BASELINE = PenaltyConfig("baseline")


@dataclass(frozen=True)
class Preset:
    """A grid and how long to train.

    Parameters
    ----------
    grid : tuple of PenaltyConfig
        The configurations, without the baseline.
    training : dict
        Arguments of :class:`~braindecode_censor.CensoredEEGClassifier` that all trainings share.
    """

    grid: tuple
    training: dict


def expand(entries):
    """Write out a grid: every combination of every entry's values.

    Parameters
    ----------
    entries : list of dict
        Each with ``method``, ``mode``, ``weight`` and options; a list stands for all its values.

    Returns
    -------
    configs : tuple of PenaltyConfig
        In the order of the entries, each once.

    Examples
    --------
    >>> [s.name for s in expand([{"method": "mmd", "mode": ["marginal", "conditional"], "weight": 0.3}])]
    ['mmd-marginal-0.3', 'mmd-conditional-0.3']
    """
    text = shorten(repr(entries), 200)
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"grid={text} must be a list of mappings, such as [{{'method': 'mmd'}}].")
    lists = [
        {key: list(value) if isinstance(value, (list, tuple)) else [value] for key, value in entry.items()}
        for entry in entries
    ]
    count = sum(prod(map(len, entry.values())) for entry in lists)
    if count > _MAX_SIZE:
        raise ValueError(
            f"the grid has {count:,} configurations, more than {_MAX_SIZE:,}: give fewer values."
        )
    if not count:
        raise ValueError(f"grid={text} has no combination: give every key at least one value.")
    combinations = (dict(zip(entry, values)) for entry in lists for values in product(*entry.values()))
    configs = {config.name: config for config in map(_make_config, combinations)}
    _check_options(configs.values())
    return tuple(configs.values())


def get_preset(preset):
    """Return a preset by name, or one made of your own grid.

    Parameters
    ----------
    preset : str, path-like, list of dict or Preset
        "paper", "quick", a YAML file, or entries as in :func:`expand`. A YAML file holds such a list, or
        ``grid:`` with the list and ``training:`` with arguments of the classifier.

    Returns
    -------
    preset : Preset
        Configurations and training arguments.
    """
    if isinstance(preset, Preset):
        return preset
    if isinstance(preset, (str, Path)):
        if str(preset) in PRESETS:
            return Preset(expand(PRESETS[str(preset)][0]), protocol_of(str(preset)))
        if not str(preset).endswith((".yml", ".yaml")):
            check_choice("preset", str(preset), [*PRESETS, "a file.yml"])
        return _read_yaml(Path(preset))
    return Preset(expand(preset), protocol_of("quick"))


def protocol_of(preset):
    """Return the training arguments of a preset: the paper's protocol, and how long."""
    # Imported here, since figures need no Braindecode, whose import takes seconds.
    from braindecode_censor.training.arguments import PAPER

    shared = {name: value for name, value in PAPER.items() if name not in _PER_TRAINING}
    return {**shared, **PRESETS[preset][1]}


def merge(training, changes):
    """Return the training arguments after some changes."""
    changes = changes or {}
    if not isinstance(changes, dict) or not all(isinstance(name, str) for name in changes):
        text = shorten(repr(changes), 200)
        raise ValueError(f"training={text} must be a mapping, such as {{'max_epochs': 50}}.")
    return {**training, **changes}


def _read_yaml(path):
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        cause = f"{type(error).__name__}, {error}"
        raise ValueError(f"preset={str(path)!r} cannot be read as YAML: {cause}.") from None
    if not isinstance(content, dict) or not {"grid", "training"} & set(content):
        return Preset(expand(content), protocol_of("quick"))
    for key in content:
        check_choice(f"key of {path.name}", key, ["grid", "training"])
    training = merge(protocol_of("quick"), content.get("training"))
    return Preset(expand(content.get("grid", QUICK_GRID)), training)


def _make_config(entry):
    check_keywords("the grid", entry)
    method = check_choice("method", entry.pop("method", None), MEASURES)
    for key, value in entry.items():
        check_choice(f"key of the grid (method {method})", key, options_of(method))
        if not isinstance(value, (str, int, float, type(None))):
            text = shorten(repr(value), 200)
            raise ValueError(
                f"{key}={text} in the grid must be a number or a word, or a list of such values."
            )
    mode = check_choice("mode", entry.pop("mode", "marginal"), MODES)
    weight = check_positive("weight of the grid", entry.pop("weight", 1.0), or_zero=True)
    options = {key: value for key, value in entry.items() if value is not None}  # None is the default of each
    return PenaltyConfig(method, mode, weight, tuple(sorted(options.items())))


def _check_options(configs):
    """Make a small penalty for each combination of options, so that a wrong value is an error before any training."""
    checks = {"warmup": lambda *pair: check_size(*pair, minimum=0), "critic_lr": check_positive}
    checks["critic_steps"] = check_size
    with torch.random.fork_rng(devices=[]):
        for method, mode, options in dict.fromkeys((c.method, c.mode, c.options) for c in configs):
            penalty_options = dict(options)
            for name, check in checks.items():
                if name in penalty_options:
                    check(f"{name} of the grid", penalty_options.pop(name))
            make_penalty(method, mode, n_features=8, n_subjects=64, n_classes=2, **penalty_options)


# Configurations and folds decide about these.
_PER_TRAINING = ("penalty", "censoring", "weight", "valid_subject", "all_subjects", "random_state")
#: Name -> grid and how long to train. "paper" is the paper's protocol: 500 epochs, all of them trained.
PRESETS = {
    "paper": (PAPER_GRID, {"max_epochs": 500, "batch_size": 64, "lr": 1e-3, "patience": None}),
    "quick": (QUICK_GRID, {"max_epochs": 100, "batch_size": 64, "lr": 1e-3, "patience": 15}),
}
