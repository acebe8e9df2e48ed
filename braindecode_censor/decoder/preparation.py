"""How the signals of a fit were prepared: what a live stream must do alike."""

from dataclasses import dataclass, fields
from typing import Literal

import mne
import numpy as np

__all__ = ["Preparation", "describe_preparation"]

_PHASES = ("causal", "zero-phase", "unknown")


@dataclass
class Preparation:
    """Preparation of the trials of a fit; None is unknown.

    Parameters
    ----------
    tmin : int
        Samples from the event to the first sample of a trial.
    unit : str
        Unit of the signals, "V", "mV", "uV" or "nV".
    reference : str or None
        Name of the reference.
    band : list of float or None
        Limits of the pass band in hertz; None for a limit.
    sos : list or None
        Second-order sections of the filter.
    phase : {"causal", "zero-phase", "unknown"}
        How the filter was applied.
    idle : object
        Class of rest, in which nothing is decided.
    """

    tmin: int = 0
    unit: Literal["V", "mV", "uV", "nV"] = "uV"
    reference: str | None = None
    band: list[float | None] | None = None
    sos: list[list[float]] | None = None
    phase: Literal[_PHASES] = "unknown"
    idle: str | int | float | bool | None = None


def describe_preparation(X, preparation=None, classes=()):
    """Return the preparation that Epochs tell, replaced by what the user says."""
    facts = {}
    X = X[0] if isinstance(X, list) and X and isinstance(X[0], mne.BaseEpochs) else X
    if isinstance(X, mne.BaseEpochs):
        facts["tmin"] = round(X.tmin * X.info["sfreq"])
        facts["band"] = [float(X.info["highpass"]) or None, float(X.info["lowpass"])]
        if X.info["custom_ref_applied"]:
            facts["reference"] = "custom"
    names = [field.name for field in fields(Preparation)]
    unknown = set(preparation or ()) - set(names)
    if unknown:
        raise ValueError(f"preparation has {sorted(unknown)}; its entries are {names}.")
    facts |= {key: value for key, value in (preparation or {}).items() if value is not None}
    if "sos" in facts:
        sos = np.asarray(facts["sos"], dtype=float)
        if sos.ndim != 2 or sos.shape[1] != 6:
            raise ValueError(
                f"preparation['sos'] has shape {sos.shape}: expected second-order sections, (n, 6)."
            )
        facts["sos"] = sos.tolist()
        facts.setdefault("phase", "causal")
    result = Preparation(**facts)
    if result.phase not in _PHASES or result.unit not in ("V", "mV", "uV", "nV"):
        raise ValueError(
            f"preparation has phase={result.phase!r} and unit={result.unit!r}: phase is one of {_PHASES}, unit one of "
            "V, mV, uV and nV."
        )
    if result.idle is not None and result.idle not in np.asarray(classes).tolist():
        raise ValueError(
            f"preparation['idle']={result.idle!r} is no class; y has {np.asarray(classes).tolist()}."
        )
    return result
