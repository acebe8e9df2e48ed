"""Is nothing trained twice, nothing mistaken for something else, and nothing damaged believed?"""

from types import SimpleNamespace

import numpy as np
import pytest
from skorch.callbacks import Callback
from tiny import DATA, TRAINING

from braindecode_censor.autotransfer import memory as module
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.search.candidates import expand
from braindecode_censor.search.jobs import make_estimator
from braindecode_censor.storage.cached import Remembered, known_data
from braindecode_censor.storage.trainings import Memory, fingerprints, training_key

SETTING, OTHER = expand([{"method": "mmd", "weight": [0.1, 0.2]}])


@pytest.fixture(scope="module")
def data():
    return SimulatedSubjects(**DATA).arrays()


def estimator(setting=SETTING, seed=0, **options):
    return make_estimator(setting, seed, {**TRAINING, **options}, [1, 2, 3, 4])


def key(clf, X, y, subjects):
    return training_key(clf, subjects, fingerprints(X, y, subjects))


def test_the_key_changes_with_all_that_decides_about_the_numbers(data, monkeypatch):
    X, y, subjects = data
    signal, label = X.copy(), y.copy()
    signal[5, 1, 7] += 1e-3
    label[5] = 1 - label[5]
    keys = [
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
    monkeypatch.setattr(module, "__version__", "99")
    keys.append(key(estimator(), X, y, subjects))
    assert len(set(keys)) == len(keys)


def test_the_key_ignores_what_changes_nothing(data):
    X, y, subjects = data
    seen = subjects != 2
    X, y, subjects = X[seen], y[seen], subjects[seen]
    named = make_estimator(SETTING, 0, {**TRAINING, "verbose": 1}, [1, 2, 3, 4], valid_subject=3)
    assert key(named, X, y, subjects) == key(estimator(), X, y, subjects)


def test_a_remembered_training_equals_a_plain_one_and_is_not_repeated(data, tmp_path, monkeypatch):
    X, y, subjects = data
    plain = estimator().fit(X, y, subjects=subjects)
    first = Remembered(estimator(), str(tmp_path)).fit(X, y, subjects=subjects)
    monkeypatch.setattr("braindecode_censor.storage.cached.train", None)  # to train now is an error
    again = Remembered(estimator(), str(tmp_path)).fit(X, y, subjects=subjects)
    for clf in (first, again):
        np.testing.assert_array_equal(clf.predict_proba(X), plain.predict_proba(X))
        assert clf.valid_score_ == plain.valid_score_
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 1


def test_known_data_are_recognised_at_a_glance_and_others_digested(data, tmp_path, monkeypatch):
    X, y, subjects = data
    recording = SimpleNamespace(X=X, y=y, subjects=subjects, digests=fingerprints(X, y, subjects))
    looked = []

    def digest(X, y, subjects, every=1):
        looked.append(every)
        return fingerprints(X, y, subjects, every)

    monkeypatch.setattr("braindecode_censor.storage.cached.fingerprints", digest)
    reader = Remembered(estimator(), str(tmp_path))
    seen, signal, label = subjects != 2, X.copy(), y.copy()
    signal[np.flatnonzero(subjects == 3)[1]] += 1
    label[-1] = 1 - label[-1]
    cases = {
        "same": (X[seen], y[seen], subjects[seen]),
        "signal": (signal, y, subjects),
        "label": (X, label, subjects),
        "fewer": (X[:-1], y[:-1], subjects[:-1]),
    }
    with known_data(recording):
        for name, case in cases.items():
            looked.clear()
            assert reader._key(*case) == key(estimator(), *case), name
            assert (1 in looked) == (name != "same"), name
    looked.clear()
    reader._key(X, y, subjects)
    assert looked == [1]


def test_subjects_that_look_alike_at_a_glance_are_told_apart(data, tmp_path):
    X, y, subjects = (part.copy() for part in data)
    X[..., ::32], y[:] = 0, np.arange(len(y)) % 2
    recording = SimpleNamespace(X=X, y=y, subjects=subjects, digests=fingerprints(X, y, subjects))
    reader, expected = Remembered(estimator(), str(tmp_path)), key(estimator(), X, y, subjects)
    with known_data(recording):
        assert reader._key(X, y, subjects) == expected
        with known_data(
            SimpleNamespace(X=X, y=y, subjects=subjects, digests=dict.fromkeys([1, 2, 3, 4], ""))
        ):
            assert reader._key(X, y, subjects) != expected
        assert reader._key(X, y, subjects) == expected


@pytest.mark.parametrize("ending", ["safetensors", "json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "missing"])
def test_a_damaged_file_counts_as_no_training(data, tmp_path, ending, damage):
    name = "k" * 64
    store = Memory(tmp_path)
    store.write(name, module.Training(b"x" * 1000, {"seconds": 1.0, "valid_score": 0.5}))
    assert store.read(name)["valid_score"] == 0.5
    path = tmp_path / f"{name}.{ending}"
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        flipped = content[:20] + bytes([content[20] ^ 255]) + content[21:]
        path.write_bytes(
            {"truncated": content[: len(content) // 2], "flipped": flipped, "empty": b""}[damage]
        )
    assert store.read(name) is None


def test_a_training_that_diverges_is_remembered_as_such(data, tmp_path):
    X, y, subjects = data
    wild = estimator(lr=1e30)
    for _ in range(2):
        with pytest.raises(ValueError, match="never finite"):
            Remembered(wild, str(tmp_path)).fit(X, y, subjects=subjects)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 1


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


@pytest.mark.parametrize("when", ["batch", "epoch"])
def test_an_interrupted_training_is_not_taken_for_a_finished_one(data, tmp_path, when):
    """skorch swallows Ctrl-C and returns a net that looks fitted."""
    X, y, subjects = data
    with pytest.raises(KeyboardInterrupt):
        Remembered(estimator(callbacks=[Interrupt(when)]), str(tmp_path)).fit(X, y, subjects=subjects)
    assert not list(tmp_path.iterdir())


def test_a_training_that_stops_early_by_itself_is_finished(data, tmp_path):
    X, y, subjects = data
    clf = Remembered(estimator(max_epochs=60, patience=1), str(tmp_path)).fit(X, y, subjects=subjects)
    assert clf.estimator_.best_epoch_ < 60
    assert len(list(tmp_path.glob("*.safetensors"))) == 1
