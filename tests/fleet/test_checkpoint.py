"""A fleet that was killed continues and ends the same."""

import pytest

from braindecode_censor.fleet import train_fleet
from braindecode_censor.fleet.epoch import train_epoch
from fleet.folds import assert_equal, data, fit_each, folds

SETTINGS = [
    {"penalty": "began", "weight": 0.1, "random_state": seed, "module__drop_prob": 0.25, "max_epochs": epochs}
    for seed, epochs in enumerate((5, 2, 4))
]


class Killed(Exception):
    pass


def run(folder, kill_after=None, settings=SETTINGS, keys=(0, 1, 2)):
    """Train, or stop after `kill_after` epochs; return the fitted estimators and the replicas' epochs."""
    X, y, subjects = data(n_trials=16)
    fitted, epochs = {}, []

    def count(groups):
        (group,) = groups
        if len(epochs) == kill_after:
            raise Killed
        epochs.append([replica.epoch for replica in group.replicas])
        return train_epoch(groups)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("braindecode_censor.fleet.engine.train_epoch", count)
        tasks = [task for task in folds(subjects, settings) if task[0] in keys]
        try:
            for replica in train_fleet(tasks, X, y, subjects, folder=folder, every=0):
                fitted[replica.key] = replica.clf
        except Killed:
            pass
    return fitted, epochs


@pytest.mark.parametrize(
    ("penalty", "sampling"), [("began", "balanced"), ("pairmmd", "balanced"), (None, "shuffle")]
)
def test_killed_group_continues(tmp_path, penalty, sampling):
    changes = {"penalty": penalty, "sampling": sampling}
    changes |= {"penalty__pairs": "bernoulli"} if penalty == "pairmmd" else {}
    settings = [{**setting, **changes} for setting in SETTINGS]
    fitted, _ = run(tmp_path, 3, settings)
    assert set(fitted) == {1}, "the replica of two epochs had finished"
    assert len(list(tmp_path.iterdir())) == 1
    continued, _ = run(tmp_path, None, settings, keys=(0, 2))
    assert_equal({**fitted, **continued}, fit_each(*data(n_trials=16), settings), 1e-9)
    assert not list(tmp_path.iterdir()), "a finished group leaves nothing behind"


def test_finished_epochs_are_not_repeated(tmp_path):
    run(tmp_path, 3)
    # Replica 1 had finished and starts again; 0 and 2 continue after three epochs.
    assert run(tmp_path, 4)[1][0] == [3, 3, 0]


@pytest.mark.parametrize("damage", ["cut", "foreign", "flipped"])
def test_damaged_checkpoint_is_ignored(tmp_path, damage):
    run(tmp_path, 3)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    flipped = content[:-50] + bytes([content[-50] ^ 1]) + content[-49:]  # within a tensor
    path.write_bytes({"cut": content[:-100], "foreign": b"x" * 100, "flipped": flipped}[damage])
    assert run(tmp_path, 1)[1] == [[0, 0, 0]]
