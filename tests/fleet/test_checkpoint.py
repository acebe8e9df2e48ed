"""Killed in the middle of a group: does it go on, and end the same?"""

import pytest
import torch

from braindecode_censor.fleet import Member, train_fleet
from braindecode_censor.fleet.checkpoint import Checkpoint
from braindecode_censor.fleet.epoch import train_epoch as plain_epoch
from braindecode_censor.fleet.group import Group
from braindecode_censor.fleet.resident import People, Resident
from fleet.folds import assert_equal, data, folds, train_alone

SETTINGS = [
    {"penalty": "began", "weight": 0.1, "random_state": seed, "module__drop_prob": 0.25, "max_epochs": epochs}
    for seed, epochs in enumerate((5, 2, 4))
]


class Killed(Exception):
    pass


def run(folder, kill_after=None, settings=SETTINGS, monkeypatch=None):
    """Train; with kill_after, stop dead after so many epochs of the group."""
    X, y, subjects = data()
    found, epochs = {}, []

    def train_epoch(groups):
        (group,) = groups
        if len(epochs) == kill_after:
            raise Killed
        epochs.append([member.epoch for member in group.members])
        return plain_epoch(groups)

    if monkeypatch is not None:
        monkeypatch.setattr("braindecode_censor.fleet.engine.train_epoch", train_epoch)
    try:
        for member in train_fleet(folds(subjects, settings), X, y, subjects, folder=folder, every=0):
            found[member.key] = member.clf
    except Killed:
        pass
    return found, epochs


@pytest.mark.parametrize(
    ("penalty", "sampling"), [("began", "balanced"), ("pairmmd", "balanced"), (None, "shuffle")]
)
def test_a_killed_group_goes_on(tmp_path, monkeypatch, penalty, sampling):
    X, y, subjects = data()
    more = {"penalty": penalty, "sampling": sampling}
    more |= {"pairs": "bernoulli"} if penalty == "pairmmd" else {}
    settings = [{**setting, **more} for setting in SETTINGS]
    found, _ = run(tmp_path, 3, settings, monkeypatch)
    assert set(found) == {1}, "the member of two epochs had finished"
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.undo()
    again = {}
    # As AutoTransfer does: what was finished is not asked for again.
    tasks = [task for task in folds(subjects, settings) if task[0] != 1]
    for member in train_fleet(tasks, X, y, subjects, folder=tmp_path, every=0):
        again[member.key] = member.clf
    assert_equal({**found, **again}, train_alone(X, y, subjects, settings), 1e-9)
    assert not list(tmp_path.iterdir()), "a finished group leaves nothing behind"


def test_going_on_does_not_repeat_epochs(tmp_path, monkeypatch):
    run(tmp_path, 3, monkeypatch=monkeypatch)
    monkeypatch.undo()
    _, epochs = run(tmp_path, monkeypatch=monkeypatch)
    # member 1, asked for again although it had finished, begins anew; 0 and 2 go on after three epochs
    assert epochs[0] == [3, 3, 0]


@pytest.mark.parametrize("damage", ["cut", "foreign", "flipped"])
def test_a_damaged_checkpoint_means_beginning_anew(tmp_path, monkeypatch, damage):
    X, y, subjects = data()
    run(tmp_path, 3, monkeypatch=monkeypatch)
    monkeypatch.undo()
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    flipped = (
        content[:-50] + bytes([content[-50] ^ 1]) + content[-49:]
    )  # in a tensor: nothing but a checksum notices
    path.write_bytes({"cut": content[:-100], "foreign": b"x" * 100, "flipped": flipped}[damage])
    found, _ = run(tmp_path)
    assert_equal(found, train_alone(X, y, subjects, SETTINGS), 1e-9)


def test_what_is_written_is_plain_tensors_and_json(tmp_path):
    X, y, subjects = data()
    members = [Member(*task, People(X, subjects), y) for task in folds(subjects, SETTINGS)]
    group = Group(members, Resident(members[0].clf, People(X, subjects)))
    plain_epoch([group])
    checkpoint = Checkpoint(tmp_path, "any")
    checkpoint.write(group)
    host, tensors = checkpoint._load()
    assert list(host) == ["0", "1", "2"] and host["0"]["count"] == members[0].count
    assert all(len(tensor) == 3 for tensor in tensors.values())
    assert torch.equal(tensors["theta"], group.state["theta"])
