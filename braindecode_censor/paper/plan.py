"""How many trainings there are, how many are left, and about how long they take: said before anything starts."""

from collections import Counter

import numpy as np
from sklearn.base import clone

from braindecode_censor.fleet.compat import sizes_of, why_alone
from braindecode_censor.paper.grid import BASELINE
from braindecode_censor.paper.jobs import Job
from braindecode_censor.trials.stored import take_part

__all__ = [
    "count_trainings",
    "cross_validation_jobs",
    "describe_plan",
    "most_epochs",
    "nested_jobs",
    "search_jobs",
    "time_epochs",
    "why_no_fleet",
]


def search_jobs(grid, recording, seed, test=None):
    """Return the trainings of a search: one split, every setting."""
    test = recording.all_subjects[0] if test is None else test
    return [Job(setting, seed, test) for setting in grid]


def cross_validation_jobs(settings, recording, seeds):
    """Return the trainings of the cross-validation."""
    return [Job(s, seed, test) for s in settings for seed in seeds for test in recording.all_subjects]


def nested_jobs(settings, recording, seeds, test):
    """Return the inner trainings of one outer fold: each other subject validates once."""
    others = [subject for subject in recording.all_subjects if subject != test]
    return [Job(s, seed, test, valid) for s in settings for seed in seeds for valid in others]


def count_trainings(grid, n_subjects, n_seeds, top, nested, trials=None):
    """Count the trainings of a whole experiment."""
    per_method = Counter(setting.method for setting in grid)
    if trials is not None:
        per_method = dict.fromkeys(per_method, trials)
    kept = sum(min(top, n) for n in per_method.values())
    size = sum(per_method.values())
    counts = {"search": size, "cross_validation": (kept + 1) * n_subjects * n_seeds - kept, "nested": 0}
    if nested:
        # the search again without each test subject, then M - 1 inner trainings of what it kept, of which
        # one is the outer fold's own
        again = size * (n_subjects - 1)
        inner = kept * n_subjects * ((n_subjects - 1) * n_seeds - 1)
        counts["nested"] = again + inner
    return {**counts, "total": sum(counts.values())}


def time_epochs(grid, recording, training):
    """Measure an epoch of each method."""
    first = {setting.method: setting for setting in reversed([BASELINE, *grid])}
    seconds = {}
    for method, setting in first.items():
        job = Job(setting, 0, recording.all_subjects[0])
        seen = np.flatnonzero(job.seen(recording))
        clf = clone(job.estimator(recording, {**training, "max_epochs": 2}))
        clf.fit(take_part(recording.X, seen), recording.y[seen], subjects=recording.subjects[seen])
        seconds[method] = min(row["dur"] for row in clf.history)  # the first epoch warms up
    return seconds


def most_epochs(recording, training):
    """Return how many epochs a training takes at most."""
    steps_per_epoch = max(1, len(recording.y) // training.get("batch_size", 64))
    limits = [training.get("max_epochs")]
    if training.get("max_steps") is not None:
        limits.append(-(-training["max_steps"] // steps_per_epoch))
    return min(limit for limit in limits if limit is not None)


def why_no_fleet(grid, recording, training):
    """Return why the network of an experiment cannot be trained as a fleet."""
    job = Job(next(iter(grid)), 0, recording.all_subjects[0])
    return why_alone(job.estimator(recording, training), sizes_of(recording.X, recording.y))


def describe_plan(grid, counts, left, seconds, epochs, workers, alone=None):
    """Say in words what is about to happen.

    Parameters
    ----------
    grid : iterable of Setting
        The settings.
    counts : dict of str to int
        From :func:`count_trainings`.
    left : int
        Trainings that are not done yet, at most.
    seconds : dict of str to float
        From :func:`time_epochs`; empty if nothing is left.
    epochs : int
        Epochs of a training, at most.
    workers : int
        Trainings at a time.
    alone : str or None
        Why a fleet trains the network one by one, from :func:`why_no_fleet`; None where there is nothing to say.

    Returns
    -------
    plan : dict
        ``settings`` per method, ``trainings``, ``left``, ``seconds_at_most``, ``alone`` and ``text``.
    """
    settings = dict(Counter(setting.method for setting in grid))
    mean = sum(seconds.get(method, 0.0) * n for method, n in settings.items()) / sum(settings.values())
    total = left * mean * epochs / workers
    words = ", ".join(f"{n} {method}" for method, n in settings.items())
    parts = ", ".join(f"{n} {name.replace('_', '-')}" for name, n in counts.items() if name != "total" and n)
    lines = [
        f"Grid: {sum(settings.values())} settings ({words}).",
        f"Trainings: {counts['total']} ({parts}), {epochs} epochs each at most.",
    ]
    if not left:
        lines = ["Nothing is left to train: tables and report are written anew."]
    elif left < counts["total"]:
        lines = [f"Left: {left} of {counts['total']} trainings, {epochs} epochs each at most."]
    if left:
        lines.append(
            f"Time: at most about {in_words(total)} with {workers} at a time, then tables and report."
        )
    if left and alone is not None:
        lines.append(f"Fleet: this network cannot be in one and is trained one by one ({alone}).")
    plan = {"settings": settings, "trainings": counts, "left": left, "seconds_at_most": total, "alone": alone}
    return {**plan, "text": "\n".join(lines)}


def in_words(seconds):
    """Return a time as a person would say it."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{max(1, round(seconds))} seconds"
