"""How many trainings, and about how long: said before anything starts."""

from collections import Counter

from sklearn.base import clone

from braindecode_censor.search.candidates import BASELINE
from braindecode_censor.search.jobs import Job, make_estimator

__all__ = [
    "count_trainings",
    "cross_validation_jobs",
    "describe_plan",
    "nested_jobs",
    "search_jobs",
    "time_epochs",
]


def search_jobs(grid, recording, seed):
    """Return the trainings of the search: one split, every setting.

    Parameters
    ----------
    grid : iterable of Setting
        The settings.
    recording : Recording
        The data; its first subject is the test subject and the second validates.
    seed : int
        Seed.

    Returns
    -------
    jobs : list of Job
        One per setting.
    """
    return [Job(setting, seed, recording.roster[0]) for setting in grid]


def cross_validation_jobs(settings, recording, seeds):
    """Return the trainings of the cross-validation.

    Parameters
    ----------
    settings : iterable of Setting
        The chosen settings, with the baseline.
    recording : Recording
        The data.
    seeds : list of int
        Seeds.

    Returns
    -------
    jobs : list of Job
        One per setting, seed and test subject.
    """
    return [Job(s, seed, test) for s in settings for seed in seeds for test in recording.roster]


def nested_jobs(settings, recording, seeds, test):
    """Return the inner trainings of one outer fold: each other subject validates once.

    Parameters
    ----------
    settings : iterable of Setting
        Candidates of this fold.
    recording : Recording
        The data.
    seeds : list of int
        Seeds.
    test : object
        The test subject, which no training sees.

    Returns
    -------
    jobs : list of Job
        M - 1 per setting and seed.
    """
    others = [subject for subject in recording.roster if subject != test]
    return [Job(s, seed, test, valid) for s in settings for seed in seeds for valid in others]


def count_trainings(grid, n_subjects, n_seeds, top, nested):
    """Count the trainings of a whole experiment.

    Parameters
    ----------
    grid : iterable of Setting
        The settings.
    n_subjects, n_seeds, top : int
        Subjects, seeds, and settings kept of each method.
    nested : bool
        Whether the nested rule is wanted.

    Returns
    -------
    counts : dict of str to int
        ``search``, ``cross_validation`` (without those that the search has done), ``nested`` (at most) and
        ``total``.
    """
    per_method = Counter(setting.method for setting in grid)
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
    """Measure an epoch of each method.

    Parameters
    ----------
    grid : iterable of Setting
        The settings.
    recording : Recording
        The data.
    training : dict
        Arguments that all trainings share.

    Returns
    -------
    seconds : dict of str to float
        Method to seconds per epoch, on this machine and one core.
    """
    first = {setting.method: setting for setting in reversed([BASELINE, *grid])}
    seen = recording.subjects != recording.roster[0]
    data = recording.X[seen], recording.y[seen]
    seconds = {}
    for method, setting in first.items():
        clf = make_estimator(setting, 0, {**training, "max_epochs": 2}, recording.roster)
        clf = clone(clf).fit(*data, subjects=recording.subjects[seen])
        seconds[method] = min(row["dur"] for row in clf.history)  # the first epoch warms up
    return seconds


def describe_plan(grid, counts, seconds, epochs, workers):
    """Say in words what is about to happen.

    Parameters
    ----------
    grid : iterable of Setting
        The settings.
    counts : dict of str to int
        From :func:`count_trainings`.
    seconds : dict of str to float
        From :func:`time_epochs`.
    epochs : int
        Epochs of a training, at most.
    workers : int
        Trainings at a time.

    Returns
    -------
    plan : dict
        ``settings`` per method, ``trainings``, ``seconds_at_most`` and ``text``.
    """
    settings = dict(Counter(setting.method for setting in grid))
    mean = sum(seconds[method] * n for method, n in settings.items()) / sum(settings.values())
    total = counts["total"] * mean * epochs / workers
    words = ", ".join(f"{n} {method}" for method, n in settings.items())
    parts = ", ".join(f"{n} {name.replace('_', '-')}" for name, n in counts.items() if name != "total" and n)
    text = (
        f"Grid: {sum(settings.values())} settings ({words}).\n"
        f"Trainings: {counts['total']} ({parts}), {epochs} epochs each at most.\n"
        f"Time: at most about {_words(total)} with {workers} at a time; early stopping makes it less."
    )
    return {"settings": settings, "trainings": counts, "seconds_at_most": total, "text": text}


def _words(seconds):
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{max(1, round(seconds))} seconds"
