"""Are trials that lie in a file read a few at a time, never copied whole, and decoded as those in memory are?"""

import pickle
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
from braindecode.datasets import create_from_X_y
from skorch.callbacks import Callback
from torch.utils.data import Dataset

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.trials import stored
from braindecode_censor.trials.dataset import read_signals
from braindecode_censor.trials.normalize import NORMALIZATIONS, SubjectNormalizer
from braindecode_censor.trials.stored import StoredSignals

QUICK = {"max_steps": 4, "batch_size": 32, "module__F1": 2, "module__D": 1}


def write(path, X):
    """Write trials to a file and open it as users do."""
    file = np.memmap(path, X.dtype, "w+", shape=X.shape)
    file[:] = X
    file.flush()
    return np.memmap(path, X.dtype, "r", shape=X.shape)


@pytest.fixture
def few(data):
    X, y, subjects = data
    return X.astype(np.float32), y, subjects


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_a_file_trains_and_decodes_as_memory_does(few, tmp_path, normalize):
    X, y, subjects = few
    file = write(tmp_path / "X", X)
    validates = subjects[0].item()
    options = {**QUICK, "normalize": normalize, "valid_subject": validates, "sampling": "shuffle"}
    memory = CensoredEEGClassifier(**options).fit(X, y, subjects=subjects)
    stays = CensoredEEGClassifier(**options).fit(file, y, subjects=subjects)
    assert isinstance(stays.get_dataset(file).x, StoredSignals)
    np.testing.assert_allclose(stays.history[:, "valid_loss"], memory.history[:, "valid_loss"], rtol=1e-6)
    np.testing.assert_allclose(stays.predict_proba(file), memory.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(stays.features(file, subjects), memory.features(X, subjects), atol=1e-5)
    mine = file[subjects == validates]
    np.testing.assert_allclose(
        stays.adapt(mine).predict_proba(mine), memory.adapt(np.array(mine)).predict_proba(mine), atol=1e-6
    )


def test_who_validates_does_not_move_the_population(few, tmp_path):
    X, y, subjects = few
    loud = X.copy()
    loud[subjects == subjects[0]] *= 100
    found = []
    for signals in (X, loud):
        file = write(tmp_path / "X", signals)
        clf = CensoredEEGClassifier(**QUICK, valid_subject=subjects[0].item()).fit(file, y, subjects=subjects)
        found.append(clf.normalizer_.population_)
        assert subjects[0] not in clf.normalizer_.subjects_
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("how", NORMALIZATIONS)
def test_a_normalizer_hands_out_plain_arrays(few, tmp_path, how):
    X, _, subjects = few
    file = write(tmp_path / "X", X)
    memory, stays = SubjectNormalizer(how), SubjectNormalizer(how)
    expected, found = (n.fit_transform(x, subjects=subjects) for n, x in ((memory, X), (stays, file)))
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert type(stays.adapt(file[:20]).transform(file)) is np.ndarray


class Resident(Callback):
    """Notes the anonymous memory of the process after every step; pages of a mapped file do not count."""

    def __init__(self):
        self.most = 0

    def on_batch_end(self, net, **kwargs):
        self.most = max(self.most, anonymous())


def anonymous():
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts memory as Linux does")
def test_nothing_is_copied_whole(tmp_path):
    shape, size = (7500, 16, 128), 7500 * 16 * 128 * 4  # 61 MB
    file = np.memmap(tmp_path / "X", np.float32, "w+", shape=shape)
    rng = np.random.default_rng(0)
    for block in np.split(file, 15):
        block[:] = rng.standard_normal(block.shape, dtype=np.float32)
    y, subjects = np.arange(len(file)) % 2, np.arange(len(file)) // 750
    options = {**QUICK, "max_steps": 6, "callbacks": [("resident", Resident())]}

    def most(X):
        clf = CensoredEEGClassifier(**options)
        before = anonymous()
        tracemalloc.start()
        clf.fit(X, y[: len(X)], subjects=subjects[: len(X)])
        clf.predict_proba(X[:1000])
        _, traced = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return traced, dict(clf.callbacks_)["resident"].most - before

    most(file[:1000])  # what is imported and allocated once
    traced, resident = most(file)
    assert max(traced, resident) < size / 3
    assert min(most(np.array(file))) > size / 2, "or the measure would not see a copy"


def as_hdf5(path, X):
    return h5py.File(path / "X.h5", "w").create_dataset("X", data=X)


def as_zarr(path, X):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(store=path / "X.zarr", shape=X.shape, dtype=X.dtype, chunks=(16, *X.shape[1:]))
    array[:] = X
    return array


@pytest.mark.parametrize("make", [as_hdf5, as_zarr])
def test_other_files_are_asked_for_sorted_positions(few, tmp_path, make):
    X, y, subjects = few
    array = make(tmp_path, X)
    signals, _ = read_signals(array)
    for places in ([5, 2, 9, 2], [3, 4, 5], slice(2, 40, 3)):
        np.testing.assert_array_equal(signals[places], X[places])
    np.testing.assert_array_equal(signals.part(np.array([7, 3, 50]))[[2, 0]], X[[50, 7]])
    clf = CensoredEEGClassifier(**QUICK).fit(array, y, subjects=subjects)
    expected = CensoredEEGClassifier(**QUICK).fit(X, y, subjects=subjects).predict_proba(X)
    np.testing.assert_allclose(clf.predict_proba(array), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.int16])
def test_small_numbers_become_single_precision_in_the_batch(few, tmp_path, dtype):
    X, y, subjects = few
    X = (100 * X / np.abs(X).max()).astype(dtype)
    file = write(tmp_path / "X", X)
    signals, _ = read_signals(file)
    assert signals.dtype == signals[:3].dtype == np.float32
    found, expected = (
        CensoredEEGClassifier(**QUICK).fit(x, y, subjects=subjects).predict_proba(x) for x in (file, X)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_large_dataset_of_braindecode_is_read_batch_by_batch(few, monkeypatch):
    X, y, people = (array[::5] for array in few)
    dataset = create_from_X_y(X, y, False, 64.0)
    small = CensoredEEGClassifier(**QUICK).fit(dataset, subjects=people)
    monkeypatch.setattr(stored, "LARGEST_COPY", 0)
    signals, targets = read_signals(dataset)
    assert isinstance(signals, StoredSignals)
    np.testing.assert_array_equal(targets, y)
    large = CensoredEEGClassifier(**QUICK).fit(dataset, subjects=people)
    np.testing.assert_allclose(large.predict_proba(dataset), small.predict_proba(dataset), atol=1e-6)


class Counted(Dataset):
    """A dataset that counts how often each trial is read."""

    def __init__(self, X, y):
        self.X, self.y, self.reads = X, y, np.zeros(len(X), dtype=int)

    def __len__(self):
        return len(self.X)

    def __getitem__(self, place):
        self.reads[place] += 1
        return self.X[place], self.y[place]


def test_statistics_take_one_look_at_every_trial(few, monkeypatch):
    X, y, subjects = few
    monkeypatch.setattr(stored, "LARGEST_COPY", 0)
    dataset = Counted(X, y)
    clf = CensoredEEGClassifier(**{**QUICK, "max_steps": 1}).fit(dataset, subjects=subjects)
    batch = clf.history[0, "batches", 0, "train_batch_size"]
    looks_at_the_first = dataset.reads[0] - 1
    assert dataset.reads[1:].min() == 1
    assert dataset.reads.sum() <= len(X) + batch + looks_at_the_first


def test_a_file_travels_by_its_name(few, tmp_path):
    X, _, _ = few
    file = write(tmp_path / "X", X)
    signals = StoredSignals(file[10:], np.array([4, 1, 7]))
    sent = pickle.dumps(signals)
    assert len(sent) < 2000 < X.nbytes
    np.testing.assert_array_equal(pickle.loads(sent)[:], X[[14, 11, 17]])
    with pytest.raises(ValueError, match="skips or turns numbers"):
        pickle.dumps(StoredSignals(file[::2]))
    (tmp_path / "X").unlink()
    with pytest.raises(FileNotFoundError, match="all of them see under the same name"):
        pickle.loads(sent)


def test_numbers_that_are_none_are_found_when_they_are_read(few, tmp_path):
    X, y, subjects = few
    X[37, 0, 3] = np.nan
    with pytest.raises(ValueError, match="first in trial 37: drop or interpolate"):
        CensoredEEGClassifier(**QUICK).fit(write(tmp_path / "X", X), y, subjects=subjects)


@pytest.mark.parametrize("shape", [(40, 16), (0, 4, 16)])
def test_files_of_another_shape_are_refused(tmp_path, shape):
    file = h5py.File(tmp_path / "X.h5", "w").create_dataset("X", data=np.zeros(shape))
    with pytest.raises(ValueError, match=r"expected \(n_trials, n_chans, n_times\)"):
        read_signals(file)
