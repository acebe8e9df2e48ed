"""Training a list of estimators as fleets: one group after another, refilled as members finish."""

import time

from braindecode_censor._check import check_size
from braindecode_censor.fleet.checkpoint import Checkpoint
from braindecode_censor.fleet.group import Group, Resident
from braindecode_censor.fleet.member import Member
from braindecode_censor.fleet.packing import fitting_size
from braindecode_censor.trials import check_labels, read_signals

__all__ = ["train_fleet"]


def train_fleet(tasks, X, y, subjects, *, group_size=None, folder=None, every=60.0, **options):
    """Train many estimators at once, each exactly as its own ``fit`` would.

    Parameters
    ----------
    tasks : iterable of (object, CensoredEEGClassifier, ndarray)
        Name of the training, estimator (which is fitted in place), and positions of the trials it may see.
    X : array-like of shape (n_trials, n_chans, n_times)
        All trials.
    y, subjects : array-like of shape (n_trials,)
        Class and subject of every trial.
    group_size : int or None
        Members that train side by side at most; None takes what fits the device's memory (see
        :func:`~braindecode_censor.fleet.packing.fitting_size`).
    folder : str, path-like or None
        Where unfinished groups are saved; None does not save them.
    every : float
        Seconds between two saves.
    **options
        Options of :class:`~braindecode_censor.fleet.group.Group`: ``vectorise``, ``masks``, ``compile``.

    Yields
    ------
    member : Member
        As soon as it has finished: ``member.key``, ``member.clf`` (fitted), ``member.error`` (None, or what
        ``fit`` would have raised because the loss was never finite).

    Examples
    --------
    >>> import numpy as np
    >>> from braindecode_censor import CensoredEEGClassifier
    >>> X, y = np.random.default_rng(0).normal(size=(64, 4, 64)), np.arange(64) % 2
    >>> subjects = np.arange(64) // 16
    >>> folds = [(m, CensoredEEGClassifier(max_epochs=1), np.flatnonzero(subjects != m)) for m in range(4)]
    >>> [member.clf.best_epoch_ for member in train_fleet(folds, X, y, subjects)]
    [1, 1, 1, 1]
    """
    signals, _ = read_signals(X)
    y = check_labels("y", y, len(signals), "pass one class per trial.")
    subjects = check_labels("subjects", subjects, len(signals), "pass one label per trial.")
    if group_size is not None:
        check_size("group_size", group_size)
    groups = {}
    for key, clf, seen in tasks:
        member = Member(key, clf, seen, signals.shape[1:], y, subjects)
        groups.setdefault(member.signature(), []).append(member)
    residents = {}
    for signature, members in groups.items():
        resident = _resident(residents, members[0].clf, signals)
        yield from _train_group(members, resident, group_size, Checkpoint(folder, signature), every, options)


def _resident(known, clf, signals):
    """The trials as this estimator wants them; groups mostly want the same."""
    dtype = next(clf.module_.parameters()).dtype
    key = clf.standardize, clf.device, dtype, clf.module_.kernel_length
    if key not in known:
        known.clear()  # one copy on the device is enough
        known[key] = Resident(clf, signals)
    return known[key]


def _train_group(members, resident, group_size, checkpoint, every, options):
    waiting = sorted(zip(members, checkpoint.read(members)), key=lambda pair: pair[1] is None)
    size = group_size or fitting_size(members[0], resident)
    group, saved = None, time.monotonic()
    while waiting or len(group):
        joining, waiting = (
            waiting[: size - (len(group) if group else 0)],
            waiting[size - (len(group) if group else 0) :],
        )
        newcomers, states = [member for member, _ in joining], [state for _, state in joining]
        if group is None:
            group = Group(newcomers, resident, states, **options)
        else:
            group.add(newcomers, states)
        finished = group.train_epoch()
        for member, state in zip(finished, group.release(finished)):
            member.finish(state)
            yield member
        if len(group) and time.monotonic() - saved >= every:
            checkpoint.write(group)
            saved = time.monotonic()
    checkpoint.remove()
