"""Candidates: configured decoders by name, as a dictionary, or as a user's own estimator."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml
from sklearn.base import BaseEstimator, clone

from braindecode_censor._check import check_choice, check_positive
from braindecode_censor.classical.estimator import TangentSpaceClassifier
from braindecode_censor.storage.keys import as_plain
from braindecode_censor.training.arguments import PAPER, check_arguments
from braindecode_censor.training.classifier import CensoredEEGClassifier

__all__ = ["BASELINE", "CENSORED", "Candidate", "censored_candidates", "default_names", "find_candidates"]

#: In a list of candidates this word stands for censoring on top of the best network of the list.
CENSORED = "censored"
_SFREQ = 128.0  # assumed for arrays without a sampling rate; EEGNet's own sizes are made for it
_KERNEL = 0.5  # seconds
_EEGNET = {"F1": "module__F1", "D": "module__D", "drop": "module__drop_prob"}


@cache
def _defaults():
    return yaml.safe_load(Path(__file__).with_name("family.yml").read_text())


#: The candidate that gains are measured against.
BASELINE = _defaults()["baseline"]


def default_names():
    """Return the names of the default candidates."""
    return list(_defaults()["candidates"])


@dataclass
class Candidate:
    """A way to make a decoder."""

    name: str
    spec: dict = field(default_factory=dict)
    estimator: object = None

    @property
    def kind(self):
        """One of "network", "classical" and "own"."""
        return next((kind for kind in ("network", "classical") if kind in self.spec), "own")

    @property
    def steps(self):
        """Steps of a full training of a network; None for others."""
        return self.make((1, 128)).max_steps if self.kind == "network" else None

    def make(self, shape, sfreq=None, seed=0, device="cpu", steps=None):
        """Return an estimator that is not fitted."""
        if self.kind == "own":
            estimator = clone(self.estimator)
            seeds = [name for name in estimator.get_params() if name.split("__")[-1] == "random_state"]
            return estimator.set_params(**dict.fromkeys(seeds, seed))
        if self.kind == "classical":
            options = {name: value for name, value in self.spec.items() if name != "classical"}
            return TangentSpaceClassifier(self.spec["classical"], **options)
        options = _network_options(self.spec, shape[1], sfreq or _SFREQ)
        if steps is not None:
            options["max_steps"] = steps
        return CensoredEEGClassifier(**options, random_state=seed, device=device)


def _network_options(spec, n_times, sfreq):
    options = dict(spec)
    module, kernel = options.pop("network"), options.pop("kernel", None)
    protocol = PAPER if options.pop("protocol", None) == "paper" else {}
    sizes = {_EEGNET[name]: options.pop(name) for name in _EEGNET if name in options}
    if module == "EEGNet":
        sizes["module__kernel_length"] = max(2, min(round((kernel or _KERNEL) * sfreq), n_times))
        if n_times < 32:  # The usual pooling, 4 times 8, would leave nothing.
            sizes |= {"module__pool1_kernel_size": 2, "module__pool2_kernel_size": max(1, n_times // 4)}
    elif module == "ShallowFBCSPNet":  # Its sizes are made for 250 Hz; these are the same times.
        filters = max(2, min(round((kernel or 0.1) * sfreq), n_times // 3))
        pool = max(2, min(round(0.3 * sfreq), n_times - filters))
        sizes |= {"module__filter_time_length": filters, "module__pool_time_length": pool}
        sizes["module__pool_time_stride"] = max(1, pool // 5)
    return {"module": module, **protocol, "penalty": None, **sizes, **options}


def find_candidates(candidates=None):
    """Return candidates by name, as dictionaries, or as estimators.

    Parameters
    ----------
    candidates : list or None
        Each item is the name of a default candidate, such as "subject"; the same with censoring on top, such as
        "subject+mmd-conditional" or "subject+mmd-conditional-0.1"; the word "censored", which stands for all methods
        and modes on top of the best network; a dictionary like those of family.yml, with a ``name``; an estimator,
        or a tuple of a name and an estimator. None is all default candidates with "censored".

    Returns
    -------
    candidates : list of Candidate
        With names that differ; without the word "censored".
    censored : bool
        Whether the word was there.
    """
    if isinstance(candidates, (str, dict)) or not (candidates is None or hasattr(candidates, "__iter__")):
        raise ValueError(f"candidates={candidates!r} must be a list of names, dictionaries or estimators.")
    items = [*default_names(), CENSORED] if candidates is None else list(candidates)
    configured = [_find(item) for item in items if not (isinstance(item, str) and item == CENSORED)]
    names = [candidate.name for candidate in configured]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"candidates has {name!r} twice: give them different names.")
    if not configured:
        raise ValueError(f"candidates={candidates!r} is empty: name at least one.")
    return configured, len(configured) < len(items)


def _find(item):
    if isinstance(item, str):
        return _by_name(item)
    if isinstance(item, dict):
        return _by_dict(item)
    name, estimator = item if isinstance(item, tuple) and len(item) == 2 else (type(item).__name__, item)
    if not isinstance(estimator, BaseEstimator) or not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"candidates has {item!r}: an estimator needs fit, predict_proba and scikit-learn's get_params."
        )
    return Candidate(str(name), estimator=estimator)


def _by_dict(item):
    spec = {option: as_plain(value) for option, value in item.items()}
    name = spec.pop("name", None)
    if not name or len({"network", "classical"} & spec.keys()) != 1:
        raise ValueError(
            f"candidates has {item!r}: a dictionary needs a name, and either network or classical, as in "
            "{'name': 'trial-net', 'network': 'EEGNet', 'normalize': 'subject'}."
        )
    candidate = Candidate(str(name), spec)
    try:
        estimator = candidate.make((1, 128))  # Wrong options raise now, not after a minute.
        if candidate.kind == "network":
            check_arguments(estimator)
            estimator.get_params_for("module")
        else:
            estimator._check_parameters()
    except (TypeError, ValueError) as error:
        raise ValueError(f"candidates has {name!r}: {error}") from None
    if candidate.kind == "network" and candidate.steps is None:
        raise ValueError(
            f"candidates has {name!r}: max_steps=None, but a search predicts its time from max_steps."
        )
    return candidate


def _by_name(name):
    base, plus, censoring = name.partition("+")
    check_choice("candidates", base, default_names() if plus else [*default_names(), CENSORED])
    spec = dict(_defaults()["candidates"][base])
    if not plus:
        return Candidate(name, spec)
    if "network" not in spec:
        raise ValueError(
            f"candidates has {name!r}: only networks can be censored, and {base!r} is classical."
        )
    method, _, rest = censoring.partition("-")
    mode, _, weight = rest.partition("-")
    options = _defaults()[CENSORED]
    check_choice("method", method, options["weights"])
    check_choice("mode", mode, options["modes"])
    try:
        weight = float(weight) if weight else options["weights"][method]
    except ValueError:
        raise ValueError(
            f"candidates has {name!r}: {weight!r} is no weight, a number is expected after the mode."
        ) from None
    return Candidate(name, {**spec, **_penalty(method, mode, weight)})


def _penalty(method, mode, weight):
    check_positive("weight", abs(weight))  # A negative weight reveals instead of censoring.
    return {"penalty": method, "censoring": mode, "weight": weight}


def censored_candidates(base):
    """Return a network with every method in every mode on top."""
    options = _defaults()[CENSORED]
    return [
        Candidate(f"{base.name}+{method}-{mode}", {**base.spec, **_penalty(method, mode, weight)})
        for method, weight in options["weights"].items()
        for mode in options["modes"]
    ]
