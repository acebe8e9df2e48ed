"""What augmentation adds to a training step: of a fleet, and of one estimator on a CPU."""

import platform
import statistics
from datetime import date

import numpy as np
import torch
from stopwatch import now

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.fleet import Member
from braindecode_censor.fleet.epoch import train_epoch
from braindecode_censor.fleet.group import Group
from braindecode_censor.fleet.resident import People, Resident

#: Channels and samples of a trial, and members of the fleet.
SIZES = {"cuda": ((61, 128, 256), (8, 640, 256)), "cpu": ((61, 128, 4),)}
#: What a step with augmentation may cost, where one without costs 1.
GOALS = {"cuda": 1.3, "cpu": 1.5}
_SUBJECTS, _STEPS, _REPEATS = 14, 12, 5
_WAYS = {"plain": None, "augmented": "standard"}


def measure_speed(device, quick=False):
    """Time training steps with and without augmentation, in turn."""
    kind = torch.device(device).type
    machine = torch.cuda.get_device_name() if kind == "cuda" else f"{platform.machine()}, one thread"
    told = (
        f"{date.today()}, torch {torch.__version__}, {machine}; batches of 64, medians of {_REPEATS} epochs."
    )
    rows, threads = [], torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for n_chans, n_times, n_members in ((4, 32, 2),) if quick else SIZES[kind]:
            size = f"{n_chans} x {n_times}, {n_members} members"
            times = _time_fleet(n_chans, n_times, n_members, device, quick)
            rows.append(_row(f"fleet, {kind}", size, times, GOALS[kind], told))
        n_chans, n_times = (4, 32) if quick else (61, 128)
        times = _time_alone(n_chans, n_times, quick)
        rows.append(_row("estimator alone, cpu", f"{n_chans} x {n_times}", times, GOALS["cpu"], told))
    finally:
        torch.set_num_threads(threads)
    return rows


def _row(what, size, times, goal, machine):
    plain, augmented = (statistics.median(times[way]) for way in _WAYS)
    found = {"what": what, "size": size, "plain": plain, "augmented": augmented, "ratio": augmented / plain}
    return {**found, "goal": goal, "machine": machine}


def _noise(n_chans, n_times, quick):
    rng = np.random.default_rng(0)
    people = np.repeat(np.arange(_SUBJECTS), 8 if quick else -(-_STEPS * 64 // _SUBJECTS))
    X = rng.standard_normal((len(people), n_chans, n_times), dtype=np.float32)
    return X, np.arange(len(people)) % 2, people


def _estimators(way, n, device, **options):
    shared = {"penalty": None, "augment": _WAYS[way], "device": device, "max_steps": 10_000, **options}
    return [CensoredEEGClassifier(**shared, random_state=seed) for seed in range(n)]


def _time_fleet(n_chans, n_times, n_members, device, quick):
    X, y, labels = _noise(n_chans, n_times, quick)
    people, groups = People(X, labels), {}
    for way in _WAYS:
        members = [
            Member(k, clf, np.arange(len(y)), people, y)
            for k, clf in enumerate(_estimators(way, n_members, device))
        ]
        groups[way] = Group(members, Resident(members[0].clf, people))
    n_steps = len(next(iter(groups.values())).members[0].clf.batches_)

    def epoch(way):
        began = now(device)
        train_epoch([groups[way]])
        return 1e3 * (now(device) - began) / n_steps

    return _in_turn(epoch, quick)


def _time_alone(n_chans, n_times, quick):
    X, y, labels = _noise(n_chans, n_times, quick)
    # so many epochs that what can be computed once for all of them is
    n_epochs = 1 if quick else 8
    clfs = {way: _estimators(way, 1, "cpu", max_steps=None, max_epochs=n_epochs)[0] for way in _WAYS}

    def epochs(way):
        began = now("cpu")
        clfs[way].fit(X, y, subjects=labels)
        return 1e3 * (now("cpu") - began) / n_epochs / len(clfs[way].batches_)

    return _in_turn(epochs, quick)


def _in_turn(measure, quick):
    times = {way: [] for way in _WAYS}
    for repeat in range(2 if quick else 1 + _REPEATS):
        for way in _WAYS:
            found = measure(way)
            if repeat:  # the first one sets things up
                times[way].append(found)
    return times
