"""The steps from the paper's protocol to the recipe, and their training: everybody left out in turn, all at once."""

import time
from functools import lru_cache

import numpy as np
import torch
from transfer_person import curve_labeled, curve_unlabeled, decode, label_shift

from braindecode_censor.fleet import train_fleet
from braindecode_censor.run.pair_trainings import pack_model, quiet, unpack_model
from braindecode_censor.search.family import find_candidates
from braindecode_censor.search.folds import seed_of_pair

_PERSON, _EUCLIDEAN = {"normalize": "subject"}, {"normalize": "euclidean"}
_CHANNEL, _PLAIN = {"normalize": "trial_channel"}, {"augment": None}
_MMD = {"penalty": "mmd", "censoring": "conditional", "weight": 0.3}
_LONG = {"F1": 16, "longer": 8 / 3}
#: Step -> what it is made of, as a candidate of the family. "longer" multiplies the number of steps, "on" names the
#: recordings where it is worth its time. Without "augment" it is the standard one, without "penalty" there is none.
STEPS = {
    "paper": {"protocol": "paper", "max_epochs": None},
    "one-cycle": {**_CHANNEL, **_PLAIN},
    "one-cycle, EMA": {**_CHANNEL, **_PLAIN, "keep": "ema"},
    "subject": {**_PERSON, **_PLAIN},
    "euclidean": {**_EUCLIDEAN, **_PLAIN},
    "trial-channel + augment": _CHANNEL,
    "population + augment": {"normalize": "population"},
    "person + augment": _PERSON,
    "person + augment + MMD": {**_PERSON, **_MMD},
    "euclidean + augment": _EUCLIDEAN,
    "person + augment, wide and long": {**_PERSON, **_LONG, "on": ("erp_uci_smni",)},
    "euclidean + augment, wide and long": {**_EUCLIDEAN, **_LONG, "on": ("ssvep_exo",)},
}
#: Steps whose networks draw the curves.
CURVES = ("person + augment", "euclidean + augment")
#: Seeds whose networks are given blocks of one class.
SHIFT_SEEDS = 2
_NOT_OPTIONS = ("longer", "on")


def units(recordings, names):
    """Share the steps out: those whose networks are alike train as one fleet."""
    alike = {}
    for recording in recordings:
        for name in names:
            spec = STEPS[name]
            if recording in spec.get("on", (recording,)):
                normalize = "trial_channel" if "protocol" in spec else spec["normalize"]
                augment = None if "protocol" in spec else spec.get("augment", "standard")
                key = recording, normalize, augment, spec.get("F1")
                alike.setdefault(key, []).append(name)
    found = [(key[0], together) for key, together in alike.items()]
    return sorted(found, key=lambda unit: ("longer" not in STEPS[unit[1][0]], unit[1][0] not in CURVES))


def steps_of(name, length):
    """Return the number of training steps."""
    return round(length * STEPS[name].get("longer", 1))


@lru_cache(maxsize=4)
def load(path):
    """Read the arrays of a recording."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def train_unit(path, wanted, folds, length, device):
    """Train steps that are alike, everybody left out in turn, as one fleet."""
    torch.set_num_threads(1)
    data, began = load(path), time.perf_counter()
    X, y, people, tasks = data["X"], data["y"], data["people"], []
    for name, seed in wanted:
        options = {key: value for key, value in STEPS[name].items() if key not in _NOT_OPTIONS}
        (candidate,), _ = find_candidates([{"name": name, "network": "EEGNet", **options}])
        for person in range(folds):
            own = seed_of_pair(seed, person)
            clf = candidate.make(X.shape[1:], float(data["sfreq"]), own, device, steps_of(name, length))
            tasks.append(((name, seed, person), clf, np.flatnonzero(people != person)))
    with quiet():
        models = [
            (member.key, None if member.error else pack_model(member.clf))
            for member in train_fleet(tasks, X, y, people)
        ]
    n_steps = max(steps_of(name, length) for name, _ in wanted)
    return models, {
        "seconds": time.perf_counter() - began,
        "trainings": len(tasks),
        "training_steps": n_steps,
    }


def evaluate(path, key, model):
    """Let a decoder decode the person it has not seen."""
    torch.set_num_threads(1)
    data, (name, seed, person) = load(path), key
    mine = data["people"] == person
    X, y, clf = data["X"][mine], data["y"][mine], unpack_model("network", model)
    curves, shift = [], []
    if name in CURVES:
        # a stream of numbers for each question, and the same one for both normalisations
        draws = [np.random.default_rng([seed, person, k]) for k in range(3)]
        curves = curve_unlabeled(clf, X, y, draws[0]) + curve_labeled(clf, X, y, draws[1])
        if seed < SHIFT_SEEDS:
            one = (person + seed) % (data["y"].max() + 1)
            shift = label_shift(clf, X, y, one, int((~mine).sum()), draws[2])
        clf.normalizer_.prior = clf.prior = 5.0
    return key, decode(clf, X), curves, shift
