"""Training of many estimators as fleets; waiting replicas join as others finish."""

import time

from braindecode_censor._check import check_size, optional
from braindecode_censor.fleet.checkpoint import Checkpoint
from braindecode_censor.fleet.compat import sequential_reason
from braindecode_censor.fleet.device_trials import DeviceTrials, SubjectStatistics
from braindecode_censor.fleet.epoch import train_epoch
from braindecode_censor.fleet.group import Group
from braindecode_censor.fleet.packing import fitting_size
from braindecode_censor.fleet.replica import Replica
from braindecode_censor.trials.dataset import check_labels, read_signals

__all__ = ["train_fleet"]


def train_fleet(tasks, X, y, subjects, *, group_size=None, folder=None, every=60.0, **options):
    """Train estimators together, each exactly as its own ``fit`` would, and yield replicas as they finish.

    A task is (key, estimator, train_idx). `folder` holds checkpoints, written `every` so many seconds; `options` are
    those of :class:`~braindecode_censor.fleet.group.Group`.
    """
    signals, _ = read_signals(X)
    y = check_labels("y", y, len(signals), "pass one class per trial.")
    subjects = check_labels("subjects", subjects, len(signals), "pass one label per trial.")
    optional(check_size)("group_size", group_size)
    statistics, fleets = SubjectStatistics(signals, subjects), {}
    for key, clf, train_idx in tasks:
        reason = sequential_reason(clf, signals, y[train_idx])
        if reason is not None:
            raise ValueError(
                f"module={clf.module!r} cannot be trained in a fleet, call its own fit: {reason}"
            )
        replica = Replica(key, clf, train_idx, statistics, y)
        fleets.setdefault(replica.encoder_signature, []).append(replica)
    for replicas in fleets.values():
        trials = DeviceTrials(replicas[0].clf, statistics)
        yield from _train(replicas, trials, group_size, folder, every, options)


def _train(replicas, trials, size, folder, every, options):
    """Train replicas with equal encoders, at most `size` at a time; yield them as they finish."""
    by_signature = {}
    for replica in replicas:
        by_signature.setdefault(replica.signature, []).append(replica)
    checkpoints = {signature: Checkpoint(folder, signature) for signature in by_signature}
    size = size or fitting_size([alike[0] for alike in by_signature.values()], trials)
    # Replicas with a checkpoint come first. Then graphs follow one another, so that few are in use at a time.
    waiting = [
        pair for name, alike in by_signature.items() for pair in zip(alike, checkpoints[name].read(alike))
    ]
    waiting.sort(key=lambda pair: pair[1] is None)
    groups, saved = {}, time.monotonic()
    while waiting or groups:
        room = size - sum(map(len, groups.values()))
        joining, waiting = waiting[:room], waiting[room:]
        for signature in dict.fromkeys(replica.signature for replica, _ in joining):
            new, states = zip(*(pair for pair in joining if pair[0].signature == signature))
            if signature in groups:
                groups[signature].add(new, states)
            else:
                groups[signature] = Group(new, trials, states, **options)
        finished = train_epoch(list(groups.values()))
        for signature, group in list(groups.items()):
            leaving = [replica for replica in finished if replica.signature == signature]
            for replica, state in zip(leaving, group.release(leaving) if leaving else ()):
                replica.finish(state, trials)
                yield replica
            if not len(group):
                del groups[signature]
                if not any(replica.signature == signature for replica, _ in waiting):
                    checkpoints[signature].remove()
        if time.monotonic() - saved >= every:
            for signature, group in groups.items():
                checkpoints[signature].write(group)
            saved = time.monotonic()
