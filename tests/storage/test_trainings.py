"""Is nothing trained twice, nothing mistaken for something else, and nothing damaged believed?"""

import json

import numpy as np
import pytest
from sklearn.base import clone
from skorch.callbacks import Callback
from tiny import DATA, TRAINING

from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.paper.cached import CachedClassifier
from braindecode_censor.paper.grid import expand
from braindecode_censor.paper.jobs import make_estimator
from braindecode_censor.run.train import train
from braindecode_censor.storage import keys
from braindecode_censor.storage.keys import subject_digests, training_key
from braindecode_censor.storage.trainings import Training, TrainingCache

SETTING, OTHER = expand([{"method": "mmd", "weight": [0.1, 0.2]}])
KEY = "k" * 64


@pytest.fixture(scope="module")
def data():
    return SimulatedSubjects(**DATA).arrays()


def estimator(setting=SETTING, seed=0, **options):
    return make_estimator(setting, seed, {**TRAINING, **options}, [1, 2, 3, 4])


def key(clf, X, y, subjects):
    return training_key(clf, subjects, subject_digests(X, y, subjects))


def test_the_key_changes_with_all_that_decides_about_the_numbers(data, monkeypatch):
    X, y, subjects = data
    signal, label = X.copy(), y.copy()
    signal[5, 1, 7] += 1e-3
    label[5] = 1 - label[5]
    found = [
        key(estimator(), X, y, subjects),
        key(estimator(OTHER), X, y, subjects),
        key(estimator(seed=1), X, y, subjects),
        key(estimator(max_epochs=3), X, y, subjects),
        key(estimator(), signal, y, subjects),
        key(estimator(), X, label, subjects),
        key(estimator(), X[:-1], y[:-1], subjects[:-1]),
        key(estimator(), X[::-1], y[::-1], subjects[::-1]),
        key(make_estimator(SETTING, 0, TRAINING, [1, 2, 3, 4], valid_subject=3), X, y, subjects),
    ]
    monkeypatch.setattr(keys, "__version__", "99")
    found.append(key(estimator(), X, y, subjects))
    assert len(set(found)) == len(found)


def test_the_key_ignores_what_changes_nothing(data):
    X, y, subjects = data
    seen = subjects != 2
    X, y, subjects = X[seen], y[seen], subjects[seen]
    named = make_estimator(SETTING, 0, {**TRAINING, "verbose": 1}, [1, 2, 3, 4], valid_subject=3)
    assert key(named, X, y, subjects) == key(estimator(), X, y, subjects)


def test_a_cached_training_answers_as_the_plain_one(data, tmp_path):
    X, y, subjects = data
    plain = estimator().fit(X, y, subjects=subjects)
    cache, name = TrainingCache(tmp_path), key(estimator(), X, y, subjects)
    record = cache.write(name, train(estimator(), X, y, subjects))
    assert cache.read(name) == record and record["valid_score"] == plain.valid_score_
    read = clone(CachedClassifier(estimator(), str(tmp_path), name)).fit(X, y, subjects=subjects)
    np.testing.assert_array_equal(read.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(read.predict(X), plain.predict(X))
    assert read.valid_score_ == plain.valid_score_ and read.valid_subject_ == plain.valid_subject_
    with pytest.raises(ValueError, match=r"training kkk.* is missing or damaged.*train it again"):
        CachedClassifier(estimator(), str(tmp_path), KEY).fit(X, y)


def _written(folder, heldout=True):
    arrays = {"3": np.linspace(0, 1, 12).reshape(6, 2)} if heldout else None
    cache = TrainingCache(folder)
    cache.write(KEY, Training(b"x" * 1000, {"seconds": 1.0, "valid_score": 0.5, "best_epoch": 7}, arrays))
    return cache


@pytest.mark.parametrize("ending", ["safetensors", "json", "heldout.safetensors"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "missing"])
def test_a_damaged_file_counts_as_no_training(tmp_path, ending, damage):
    cache = _written(tmp_path)
    assert cache.read(KEY)["valid_score"] == 0.5 and not cache.is_damaged(KEY)
    path = tmp_path / f"{KEY}.{ending}"
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        flipped = content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]
        path.write_bytes(
            {"truncated": content[: len(content) // 2], "flipped": flipped, "empty": b""}[damage]
        )
    assert cache.read(KEY) is None and cache.is_damaged(KEY)


@pytest.mark.parametrize(
    "change", [{"valid_score": 0.9}, {"best_epoch": 8}, {"has_heldout": False}, {"more": 1}, {"seconds": 2.0}]
)
def test_an_edited_record_is_not_believed(tmp_path, change):
    cache = _written(tmp_path)
    path = tmp_path / f"{KEY}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert cache.read(KEY) is None


def test_the_files_of_another_training_are_not_believed(tmp_path):
    cache = _written(tmp_path, heldout=False)
    other = "o" * 64
    for ending in ("json", "safetensors"):
        (tmp_path / f"{other}.{ending}").write_bytes((tmp_path / f"{KEY}.{ending}").read_bytes())
    assert cache.read(KEY) is not None and cache.read(other) is None


def test_answers_for_people_held_out_come_back(tmp_path):
    cache = _written(tmp_path)
    np.testing.assert_array_equal(cache.heldout(KEY)["3"], np.linspace(0, 1, 12).reshape(6, 2))
    assert _written(tmp_path / "without", heldout=False).heldout(KEY) == {}


def test_a_training_that_diverges_is_kept_as_such(data, tmp_path):
    X, y, subjects = data
    done = train(estimator(lr=1e30), X, y, subjects)
    assert "finite" in done.record["error"] and done.weights == b""
    cache = TrainingCache(tmp_path)
    cache.write(KEY, done)
    with pytest.raises(ValueError, match="finite"):
        CachedClassifier(estimator(), str(tmp_path), KEY).fit(X, y, subjects=subjects)


class Interrupt(Callback):
    """Ctrl-C in the middle of a training."""

    def __init__(self, when):
        self.when = when

    def on_batch_end(self, net, training=None, **kwargs):
        if self.when == "batch" and len(net.history) == 2 and training:
            raise KeyboardInterrupt

    def on_epoch_begin(self, net, **kwargs):
        if self.when == "epoch" and len(net.history) == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.parametrize("when", ["batch", "epoch"])
def test_an_interrupted_training_is_not_taken_for_a_finished_one(data, when, keep):
    """skorch swallows Ctrl-C and returns a net that looks fitted."""
    X, y, subjects = data
    with pytest.raises(KeyboardInterrupt):
        train(estimator(callbacks=[Interrupt(when)], keep=keep), X, y, subjects)


def test_trainings_that_end_by_themselves_are_finished(data):
    X, y, subjects = data
    early = train(estimator(max_epochs=60, patience=1, keep="best"), X, y, subjects).record
    assert 0 < early["best_epoch"] < 60 and len(early["history"]["valid_loss"]) < 60
    few = train(estimator(max_epochs=60, max_steps=5), X, y, subjects).record
    assert 0 < len(few["history"]["valid_loss"]) < 60
