"""Training a list of estimators as fleets: many at a time, the next ones joining as members finish."""

import time

from braindecode_censor._check import check_size
from braindecode_censor.fleet.checkpoint import Checkpoint
from braindecode_censor.fleet.compat import check_estimator, sizes_of, why_alone
from braindecode_censor.fleet.epoch import train_epoch
from braindecode_censor.fleet.group import Group
from braindecode_censor.fleet.lone import LoneMember
from braindecode_censor.fleet.member import Member
from braindecode_censor.fleet.packing import fitting_size
from braindecode_censor.fleet.resident import People, Resident
from braindecode_censor.trials.dataset import check_labels, read_signals

__all__ = ["train_fleet"]


def train_fleet(tasks, X, y, subjects, *, group_size=None, folder=None, every=60.0, **options):
    """Train many estimators at once, each exactly as its own ``fit`` would.

    Networks that cannot be in a fleet are trained one by one, after the others.
    """
    signals, _ = read_signals(X)
    y = check_labels("y", y, len(signals), "pass one class per trial.")
    subjects = check_labels("subjects", subjects, len(signals), "pass one label per trial.")
    if group_size is not None:
        check_size("group_size", group_size)
    people, fleets, lone = People(signals, subjects), {}, []
    for key, clf, seen in tasks:
        check_estimator(clf)
        reason = why_alone(clf, sizes_of(signals, y[seen]))
        if reason is not None:
            lone.append(LoneMember(key, clf, seen, reason))
            continue
        member = Member(key, clf, seen, people, y)
        fleets.setdefault(member.encoder_signature, []).append(member)
    for members in fleets.values():
        resident = Resident(members[0].clf, people)
        yield from _train(members, resident, group_size, folder, every, options)
    for member in lone:
        member.train(signals, y, subjects)
        yield member


def _train(members, resident, size, folder, every, options):
    """Train members with one kind of encoder, at most `size` at a time."""
    checkpoints = {member.signature: Checkpoint(folder, member.signature) for member in members}
    by_signature = {signature: [m for m in members if m.signature == signature] for signature in checkpoints}
    size = size or fitting_size([alike[0] for alike in by_signature.values()], resident)
    waiting = []  # those who had begun first, then by their graphs, so that few graphs are under way at a time
    for signature, alike in by_signature.items():
        waiting += zip(alike, checkpoints[signature].read(alike))
    waiting.sort(key=lambda pair: pair[1] is None)
    groups, saved = {}, time.monotonic()
    while waiting or groups:
        room = size - sum(map(len, groups.values()))
        joining, waiting = waiting[:room], waiting[room:]
        for signature in dict.fromkeys(member.signature for member, _ in joining):
            newcomers, states = zip(*(pair for pair in joining if pair[0].signature == signature))
            if signature in groups:
                groups[signature].add(list(newcomers), states)
            else:
                groups[signature] = Group(list(newcomers), resident, states, **options)
        finished = train_epoch(list(groups.values()))
        for signature, group in list(groups.items()):
            leaving = [member for member in finished if member.signature == signature]
            for member, state in zip(leaving, group.release(leaving) if leaving else ()):
                member.finish(state, resident)
                yield member
            if not len(group):
                del groups[signature]
                if not any(member.signature == signature for member, _ in waiting):
                    checkpoints[signature].remove()
        if time.monotonic() - saved >= every:
            for signature, group in groups.items():
                checkpoints[signature].write(group)
            saved = time.monotonic()
