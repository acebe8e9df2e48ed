"""What is tried: the paper's table of hyper-parameters as data, a short list for laptops, and your own."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import yaml

from braindecode_censor._check import check_choice
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.penalties.modes import MODES

__all__ = ["BASELINE", "METHODS", "PAPER", "PRESETS", "QUICK", "Preset", "Setting", "expand", "get_preset"]

#: The paper's five, in its order.
METHODS = ("adv", "mige", "mmd", "pairmmd", "began")
_MODES = ["marginal", "conditional", "complementary"]
_SMALL = [1.0, 0.3, 0.1, 0.03, 0.01]
_LARGE = [1.0, 3.0, 10.0, 30.0, 100.0]
# Key of a grid -> argument of CensoredEEGClassifier.
_ARGUMENTS = {
    "method": "penalty",
    "mode": "censoring",
    "weight": "weight",
    "score": "score_estimator",
    "reg": "reg",
    "lengthscale": "lengthscale",
    "pairs": "pairs",
    "fraction": "fraction",
    "size": "size",
    "warmup": "warmup",
    "critic_lr": "critic_lr",
    "critic_steps": "critic_steps",
}
_PAIRS = [{"pairs": "bernoulli", "fraction": 0.5}, {"pairs": "clique", "size": 4}]

#: The paper's table. Its score estimator "MIGE" is the SSGE that the MIGE authors use, so it is no row of its
#: own; the text varies γ and the length scale for the three alternatives to SSGE alone; b and d of PairMMD
#: are not given there.
PAPER = [
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
QUICK = [
    {"method": "adv", "mode": _MODES, "weight": [0.01, 0.1]},
    {"method": "mige", "mode": _MODES, "weight": [0.01, 0.1], "score": "ssge"},
    {"method": "mmd", "mode": _MODES, "weight": [0.1, 1.0]},
    {"method": "pairmmd", "mode": _MODES, "weight": [0.1, 1.0], **_PAIRS[0]},
    {"method": "began", "mode": _MODES, "weight": [0.01, 0.1]},
]


@dataclass(frozen=True)
class Setting:
    """One way to train: a censoring method, a mode, a weight and the method's own options.

    Parameters
    ----------
    method : str
        One of ``METHODS``, or "baseline" for no censoring.
    mode : str or None
        Censoring mode; None for the baseline.
    weight : float
        The paper's λ.
    options : tuple of (str, object)
        Further options, sorted by name.

    Examples
    --------
    >>> Setting("mige", "marginal", 0.1, (("reg", 0.001), ("score", "nu"))).name
    'mige-marginal-0.1-reg0.001-nu'
    """

    method: str
    mode: str | None = None
    weight: float = 0.0
    options: tuple = ()

    @property
    def name(self):
        """Short and unique among all settings."""
        if self.method == "baseline":
            return self.method
        words = [value if isinstance(value, str) else f"{key}{value:.12g}" for key, value in self.options]
        return "-".join([self.method, self.mode, f"{self.weight:.12g}", *words])

    def parameters(self):
        """Return the arguments of :class:`~braindecode_censor.CensoredEEGClassifier`.

        Returns
        -------
        parameters : dict
            Plain strings and numbers.
        """
        if self.method == "baseline":
            return {"penalty": None}
        return {_ARGUMENTS[key]: value for key, value in self.as_dict().items()}

    def as_dict(self):
        """Return the setting in the form of a grid's entry.

        Returns
        -------
        entry : dict
            What :func:`expand` turns back into this setting.
        """
        if self.method == "baseline":
            return {"method": "baseline"}
        return {"method": self.method, "mode": self.mode, "weight": self.weight, **dict(self.options)}


#: No censoring.
BASELINE = Setting("baseline")


@dataclass(frozen=True)
class Preset:
    """A grid and how long to train.

    Parameters
    ----------
    grid : tuple of Setting
        The settings to try, without the baseline.
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
    settings : tuple of Setting
        In the order of the entries, each once.

    Examples
    --------
    >>> [s.name for s in expand([{"method": "mmd", "mode": ["marginal", "conditional"], "weight": 0.3}])]
    ['mmd-marginal-0.3', 'mmd-conditional-0.3']
    """
    if isinstance(entries, dict):
        entries = [entries]
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"grid={entries!r} must be a list of mappings, such as [{{'method': 'mmd'}}].")
    found = {}
    for entry in entries:
        lists = {key: value if isinstance(value, list) else [value] for key, value in entry.items()}
        for values in product(*lists.values()):
            setting = _make_setting(dict(zip(lists, values)))
            found[setting.name] = setting
    if not found:
        raise ValueError(f"grid={entries!r} has no combination: give every key at least one value.")
    return tuple(found.values())


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
        Settings and training arguments.
    """
    if isinstance(preset, Preset):
        return preset
    if isinstance(preset, (str, Path)):
        if str(preset) in PRESETS:
            grid, training = PRESETS[str(preset)]
            return Preset(expand(grid), dict(training))
        if not str(preset).endswith((".yml", ".yaml")):
            check_choice("preset", str(preset), [*PRESETS, "a file.yml"])
        return _read_yaml(Path(preset))
    return Preset(expand(preset), dict(PRESETS["quick"][1]))


def _read_yaml(path):
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"preset={str(path)!r} cannot be read as YAML: {error}.") from None
    if not isinstance(content, dict) or not {"grid", "training"} & set(content):
        return get_preset(content)
    for key in content:
        check_choice(f"key of {path.name}", key, ["grid", "training"])
    training = {**PRESETS["quick"][1], **(content.get("training") or {})}
    return Preset(expand(content.get("grid", QUICK)), training)


def _make_setting(entry):
    for key in entry:
        check_choice("key of the grid", key, _ARGUMENTS)
    method = check_choice("method", entry.pop("method", None), MEASURES)
    mode = check_choice("mode", entry.pop("mode", "marginal"), MODES)
    weight = entry.pop("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < float("inf"):
        raise ValueError(f"weight={weight!r} in the grid must be a number of at least 0.")
    options = {key: value for key, value in entry.items() if value is not None}  # None is the default of each
    return Setting(method, mode, float(weight), tuple(sorted(options.items())))


#: Name -> grid and training arguments. "paper" is the paper's protocol: 500 epochs, all of them trained.
PRESETS = {
    "paper": (PAPER, {"max_epochs": 500, "batch_size": 64, "lr": 1e-3, "patience": None}),
    "quick": (QUICK, {"max_epochs": 100, "batch_size": 64, "lr": 1e-3, "patience": 15}),
}
