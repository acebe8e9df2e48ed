"""Design of a simulation: a frozen record of plain numbers, and the named presets."""

import hashlib
from dataclasses import asdict, dataclass, field
from numbers import Real

import numpy as np

from braindecode_censor.datasets._check import check_name, require
from braindecode_censor.datasets._head import EEG_NAMES

# Standard deviation of each subject effect at shift=1.
EFFECTS = {
    "erp": {
        "rotation": 5.0,  # degrees, of the cap about each axis
        "orientation": 120.0,  # degrees, of the early source in its tangent plane
        "latency": 0.015,  # seconds, of the class-locked components
        "gain": 0.3,  # natural logarithm, of the amplifier as a whole and a third of it per electrode
        "noise": 0.2,  # natural logarithm, of the background's amplitude
        "power": 0.5,  # natural logarithm, of the power of every background source
        "offset": 6.0,  # microvolts, of the responses that both classes share
    },
    "emg": {
        "rotation": 6.0,  # degrees, of the armband around the arm
        "activation": 0.15,  # natural logarithm, of how strongly a muscle joins a gesture
        "latency": 0.05,  # seconds, of the onset of the contraction
        "gain": 0.3,  # natural logarithm, as above
        "noise": 0.2,  # natural logarithm, of the amplifier noise
    },
    "mixed": {
        "gain": 0.6,  # natural logarithm, of the amplifier as a whole and of every electrode
        "mixing": 0.4,  # fraction of every other channel in a channel
    },
}
# Strength of the class-locked activity and of the subject shift.
_PRESETS = {
    "easy": {"snr": 1.5, "shift": 0.5},
    "medium": {"snr": 1.0, "shift": 1.0},
    "hard": {"snr": 0.7, "shift": 1.5},
}
PRESETS = {
    "erp": _PRESETS,
    "emg": _PRESETS,
    "mixed": {
        "alike": {"snr": 0.9, "shift": 0.0},
        "easy": {"snr": 1.2, "shift": 0.5},
        "medium": {"snr": 0.9, "shift": 1.0},
        "hard": {"snr": 0.7, "shift": 1.5},
    },
}
_SHAPES = {
    "erp": {"n_chans": 16, "sfreq": 128.0, "duration": 1.0, "n_classes": 2},
    "emg": {"n_chans": 8, "sfreq": 200.0, "duration": 1.0, "n_classes": 5},
    "mixed": {"n_chans": 8, "sfreq": 64.0, "duration": 1.0, "n_classes": 4},
}
_MINIMUM = {"n_subjects": 1, "n_sessions": 1, "n_classes": 2, "n_chans": 2, "imbalance": 1, "seed": 0}
_MINIMUM |= dict.fromkeys(("shift", "snr", "drift", "label_shift"), 0)
_INTEGERS = ("n_subjects", "n_trials", "n_sessions", "n_classes", "n_chans", "seed")
_MODEL = 1  # raise when the same design would give other samples, so that no cache mixes the two


@dataclass(frozen=True)
class Design:
    """All numbers that determine the samples."""

    kind: str
    n_subjects: int
    n_trials: int
    n_sessions: int
    shift: float
    snr: float
    drift: float
    label_shift: float
    imbalance: float
    seed: int
    n_chans: int
    n_classes: int
    sfreq: float
    duration: float
    effects: dict = field(hash=False)

    @property
    def n_times(self):
        """Samples per trial."""
        return round(self.duration * self.sfreq)

    @property
    def digest(self):
        """Eight letters that differ between designs: MOABB's caches identify a dataset by its code alone."""
        text = repr((_MODEL, sorted(asdict(self).items())))
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def make_design(kind, preset, effects, **options):
    """Return a design of the preset's numbers, replaced by all options that are not None."""
    check_name(kind, PRESETS, "kind")
    check_name(preset, PRESETS[kind], "preset")
    for name in effects or {}:
        check_name(name, EFFECTS[kind], "effect")
    options = {name: value for name, value in options.items() if value is not None}
    fields = _SHAPES[kind] | PRESETS[kind][preset] | options
    design = Design(kind=kind, effects=EFFECTS[kind] | (effects or {}), **fields)
    _check_design(design)
    return design


def _check_design(design):
    """Raise a ValueError for numbers that give no recording."""
    values = asdict(design)
    for name in values.keys() - {"kind", "effects"}:
        require(isinstance(values[name], Real), f"{name}={values[name]!r} must be a number.")
    require(values["n_subjects"] <= 10_000, f"n_subjects={values['n_subjects']!r} must be at most 10,000.")
    for name in ("sfreq", "duration"):
        require(0 < values[name] < np.inf, f"{name}={values[name]!r} must be a positive number.")
    for name, low in _MINIMUM.items():
        require(values[name] >= low, f"{name}={values[name]!r} is too small; it must be at least {low}.")
    for name in _INTEGERS:
        require(isinstance(values[name], int | np.integer), f"{name}={values[name]!r} must be an integer.")
    kind, n_classes, n_chans = design.kind, design.n_classes, design.n_chans
    n_needed = 2 * n_classes * design.n_sessions
    sizes, n_max = f"n_classes={n_classes}, n_chans={n_chans}", len(EEG_NAMES)
    if design.n_trials < n_needed:
        problem = "leaves fewer than two trials per class and session"
        raise ValueError(f"n_trials={design.n_trials} {problem}; give at least {n_needed}.")
    if kind == "erp" and (n_classes != 2 or n_chans > n_max):
        raise ValueError(f"{sizes}: kind='erp' has two classes and at most {n_max} channels.")
    if kind == "mixed" and not n_classes <= n_chans <= n_max:
        raise ValueError(f"{sizes}: kind='mixed' has at least as many channels as classes, at most {n_max}.")
    if design.duration < 0.5 or design.sfreq < 64:
        shape = f"duration={design.duration} s at sfreq={design.sfreq} Hz"
        raise ValueError(f"{shape} cannot hold the responses; use at least 0.5 s and 64 Hz.")
