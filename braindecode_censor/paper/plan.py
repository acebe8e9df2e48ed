"""The plan of an experiment: how many trainings it has, how many remain, and about how long they take."""

import time
from collections import Counter

from sklearn.base import clone
from threadpoolctl import threadpool_limits

from braindecode_censor.paper.grid import BASELINE
from braindecode_censor.paper.trainings import make_training

__all__ = ["count_trainings", "describe_plan", "format_seconds", "time_epochs", "typical_epochs"]


def count_trainings(grid, n_subjects, n_seeds, n_top, n_optuna_trials=None):
    """Count the trainings of a whole experiment."""
    per_method = Counter(config.method for config in grid)
    if n_optuna_trials is not None:
        per_method = dict.fromkeys(per_method, n_optuna_trials)
    n_best = sum(min(n_top, n) for n in per_method.values())
    # The best configurations are trained without the first subject in the search already.
    counts = {"search": sum(per_method.values())}
    counts["cross_validation"] = (n_best + 1) * n_subjects * n_seeds - n_best
    return {**counts, "total": sum(counts.values())}


def time_epochs(grid, data, training):
    """Return method -> processor seconds of an epoch, which other work on the machine does not lengthen."""
    configs = {config.method: config for config in reversed([BASELINE, *grid])}
    with threadpool_limits(1):
        _time_epoch(BASELINE, data, training)  # The first fit of a process warms up.
        return {method: _time_epoch(config, data, training) for method, config in configs.items()}


def _time_epoch(config, data, training, n_epochs=2):
    fit = make_training(config, 0, data.all_subjects[0], {**training, "max_epochs": n_epochs}, data)
    rows, began = data.rows(fit.train), time.process_time()
    clf = clone(fit.estimator).fit(data.take(rows), data.y[rows], subjects=data.subjects[rows])
    return (time.process_time() - began) / len(clf.history)


def typical_epochs(data, training):
    """Return about how many epochs a training takes."""
    limits = [training.get("max_epochs")]
    if training.get("max_steps") is not None:
        steps_per_epoch = max(1, len(data.y) // training.get("batch_size", 64))
        limits.append(-(-training["max_steps"] // steps_per_epoch))
    if training.get("patience") is not None:
        limits.append(3 * training["patience"])  # Early stopping typically ends a training about here.
    return min(limit for limit in limits if limit is not None)


def describe_plan(grid, counts, n_remaining, seconds, n_epochs, n_workers):
    """Return the plan as numbers and as text; `seconds` is the result of :func:`time_epochs`."""
    configs = dict(Counter(config.method for config in grid))
    mean = sum(seconds.get(method, 0.0) * n for method, n in configs.items()) / sum(configs.values())
    total = n_remaining * mean * n_epochs / n_workers
    by_method = ", ".join(f"{n} {method}" for method, n in configs.items())
    by_stage = f"{counts['search']} search, {counts['cross_validation']} cross-validation"
    lines = [
        f"Grid: {sum(configs.values())} configurations ({by_method}).",
        f"Trainings: {counts['total']} ({by_stage}), typically of {n_epochs} epochs.",
    ]
    if not n_remaining:
        lines = ["Nothing remains to be trained: tables and report are written again."]
    elif n_remaining < counts["total"]:
        lines = [f"Remaining: {n_remaining} of {counts['total']} trainings, typically of {n_epochs} epochs."]
    if n_remaining:
        lines.append(
            f"Time: about {format_seconds(total)} with {n_workers} at a time, then tables and report."
        )
    plan = {"configurations": configs, "trainings": counts, "remaining": n_remaining, "seconds": total}
    return {**plan, "text": "\n".join(lines)}


def format_seconds(seconds):
    """Return a duration in words."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{max(1, round(seconds))} seconds"
