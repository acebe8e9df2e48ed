"""The censoring study: one recipe with every way of censoring on top, on people who are left out in folds."""

from dataclasses import dataclass

import numpy as np
import torch

from braindecode_censor.fleet import train_fleet
from braindecode_censor.paper.grid import METHODS
from studies.censoring.side_by_side import Networks, leakage_of_codes
from braindecode_censor.search.family import BASELINE, censored_candidates, find_candidates
from braindecode_censor.trials.normalize import SubjectNormalizer, normalize_people, people_statistics

__all__ = ["MODES", "Setting", "Study", "make_folds", "make_settings"]

#: The paper's three.
MODES = ("marginal", "conditional", "complementary")
_FAR = 1000  # seeds of two folds must not meet
_CALIBRATED = 10  # calibrated, MIGE's gradient is that much smaller (``benchmarks/mige_labels.py``)


@dataclass(frozen=True)
class Setting:
    """What is trained beside the recipe itself."""

    method: str
    mode: str
    weight: float = 0.0
    control: str = "censored"


def make_settings(base, levels, control_modes, methods=METHODS, calibrate=False):
    """List what is trained on top of a recipe."""
    usual = {(c.spec["penalty"], c.spec["censoring"]): c.spec["weight"] for c in censored_candidates(base)}
    if calibrate:
        usual |= {key: _CALIBRATED * weight for key, weight in usual.items() if key[0] == "mige"}
    settings = [Setting("none", "marginal", control=control) for control in ("batches", "shuffle")]
    settings += [Setting("none", "conditional", control="batches")]
    for method in methods:
        for mode in MODES:
            weight = usual[method, mode]
            settings += [Setting(method, mode, float(f"{level * weight:.3g}")) for level in levels]
            if mode in control_modes:
                settings += [
                    Setting(method, mode, -weight, "reveal"),
                    Setting(method, mode, weight, "labels"),
                ]
    return settings


def make_folds(n_people, n_folds, seed):
    """Share people out."""
    return np.array_split(np.random.default_rng(seed).permutation(n_people), min(n_folds, n_people))


class Study:
    """One recording, one recipe: what is trained, and what it says."""

    def __init__(self, X, y, people, sfreq, base, options):
        self.X, self.y, self.people, self.sfreq, self.options = X, y, people, sfreq, options
        self.base = find_candidates([base])[0][0]
        listed = (options[name] for name in ("levels", "control_modes", "methods", "calibrate"))
        self.settings = make_settings(self.base, *listed)
        self.recipe = self._make(0)
        how = self.recipe.normalize
        self.by_person = people_statistics(X, people, how) if how in ("subject", "euclidean") else None
        # Normalised here, because people whose labels are shuffled keep their own statistics.
        self.signals = normalize_people(X, people, how)

    def _make(self, seed):
        options = self.options
        return self.base.make(self.X.shape[1:], self.sfreq, seed, options["device"], options["max_steps"])

    def describe(self):
        """Return what decides about the numbers of a setting and a seed."""
        decisive = ("folds", "max_steps", "calibrate")
        return {"base": self.base.spec, **{name: self.options[name] for name in decisive}}

    def run(self, seeds, settings, folder=None):
        """Train settings on all folds with some seeds, all at once."""
        n_people, n_settings = self.people.max() + 1, len(settings)
        folds = {seed: make_folds(n_people, self.options["folds"], seed) for seed in seeds}
        places = [(seed, fold) for seed in seeds for fold in range(len(folds[seed]))]
        rows, owners = [np.arange(len(self.y))], [self.people]  # copies with shuffled owners follow
        tasks = []
        for seed, fold in places:
            left_out = folds[seed][fold]
            validating = folds[seed][(fold + 1) % len(folds[seed])][0]
            seen = np.flatnonzero(~np.isin(self.people, left_out))
            shuffled = sum(map(len, rows)) + np.arange(len(seen))
            rows.append(seen)
            owners.append(self._shuffle(seen, validating, seed * _FAR + fold))
            for k, setting in enumerate(settings):
                trials = shuffled if setting.control == "labels" else seen
                estimator = self._estimator(setting, seed * _FAR + fold, validating)
                tasks.append(((seed, fold, k), estimator, trials))  # also the name under which it is saved
        rows, owners = np.concatenate(rows), np.concatenate(owners)
        trained, options = {}, {name: self.options[name] for name in ("group_size", "compile")}
        for member in train_fleet(tasks, self.signals[rows], self.y[rows], owners, folder=folder, **options):
            if member.error is None:
                trained[member.key] = member.clf
        found = {
            seed: {
                "probabilities": np.full((n_settings, len(self.y), self.y.max() + 1), np.nan, np.float16),
                "scores": np.full((n_settings, n_people), np.nan),
                "leakage": np.full((n_settings, len(folds[seed]), len(MODES)), np.nan),
            }
            for seed in seeds
        }
        for seed, fold in places:
            mine = {key[2]: clf for key, clf in trained.items() if key[:2] == (seed, fold)}
            if mine:
                self._test(mine, folds[seed][fold], fold, found[seed])
        return found

    def _estimator(self, setting, seed, validating):
        estimator = self._make(seed).set_params(
            penalty=None if setting.method == "none" else setting.method,
            censoring=setting.mode,
            weight=setting.weight,
            sampling="shuffle" if setting.control == "shuffle" else "balanced",
            normalize="none",
        )
        if setting.method == "mige":
            estimator.set_params(callbacks__censor__calibrate=self.options["calibrate"])
        if estimator.valid_subject is not None:
            estimator.set_params(valid_subject=validating)
        return estimator

    def _shuffle(self, seen, validating, seed):
        """Deal the people's labels anew within every class; the one who may validate stays whole."""
        owners, rng = self.people[seen].copy(), np.random.default_rng(seed)
        for k in np.unique(self.y):
            here = np.flatnonzero((self.y[seen] == k) & (owners != validating))
            owners[here] = rng.permutation(owners[here])
        return owners

    def _test(self, estimators, left_out, fold, found):
        numbers, networks = list(estimators), Networks(list(estimators.values()), self._at_once())
        seen = np.flatnonzero(~np.isin(self.people, left_out))
        rows = range(len(numbers))
        normalizer = self._normalizer(left_out)
        knows = self.base.name != BASELINE  # the paper's protocol knows nothing of the person
        for person in left_out:
            mine = np.flatnonzero(self.people == person)
            known = normalizer.adapt(self.X[mine]) if knows else normalizer
            said = networks.decode(rows, known.transform(self.X[mine]), self.recipe.prior if knows else None)
            found["probabilities"][np.ix_(numbers, mine)] = said
            right = said.argmax(-1) == self.y[mine]
            by_class = [right[:, self.y[mine] == k].mean(1) for k in np.unique(self.y[mine])]
            found["scores"][numbers, person] = np.mean(by_class, axis=0)
        leakage = leakage_of_codes(networks.encode(rows, self.signals[seen]), self.y[seen], self.people[seen])
        found["leakage"][numbers, fold] = np.stack([leakage[mode] for mode in MODES], axis=1)

    def _normalizer(self, left_out):
        """Return what a decoder knows that has not seen some people."""
        shape = self.X.shape[1], self.recipe.prior
        if self.by_person is None:
            return SubjectNormalizer.from_people(self.recipe.normalize, [], None, *shape)
        people, statistics = self.by_person
        seen = ~np.isin(people, left_out)
        return SubjectNormalizer.from_people(self.recipe.normalize, people[seen], statistics[seen], *shape)

    def _at_once(self):
        return 4 if torch.device(self.options["device"]).type == "cpu" else 32
