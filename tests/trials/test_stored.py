"""Trials in a file are read block by block, never copied whole, and decoded as those in memory."""

import pickle
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
from skorch.callbacks import Callback
from torch.utils.data import Dataset

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.trials import quality, stored
from braindecode_censor.trials.dataset import read_signals
from braindecode_censor.trials.normalizations import NORMALIZATIONS
from braindecode_censor.trials.stored import StoredSignals

QUICK = {"max_steps": 4, "batch_size": 32, "module__F1": 2, "module__D": 1}


def write(path, X):
    file = np.memmap(path, X.dtype, "w+", shape=X.shape)
    file[:] = X
    file.flush()
    return np.memmap(path, X.dtype, "r", shape=X.shape)


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_file_equals_memory(data, tmp_path, normalize):
    X, y, subjects = data
    file = write(tmp_path / "X", X)
    validates = subjects[0].item()
    options = {**QUICK, "normalize": normalize, "valid_subject": validates, "sampling": "shuffle"}
    memory = CensoredEEGClassifier(**options).fit(X, y, subjects=subjects)
    stored = CensoredEEGClassifier(**options).fit(file, y, subjects=subjects)
    assert isinstance(stored.get_dataset(file).x, StoredSignals)
    np.testing.assert_allclose(stored.history[:, "valid_loss"], memory.history[:, "valid_loss"], rtol=1e-6)
    np.testing.assert_allclose(stored.predict_proba(file), memory.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(stored.features(file, subjects), memory.features(X, subjects), atol=1e-5)
    block = file[subjects == validates]
    adapted = stored.adapt(block), memory.adapt(np.array(block))
    np.testing.assert_allclose(*(clf.predict_proba(block) for clf in adapted), atol=1e-6)


class MemoryPeak(Callback):
    """Largest anonymous memory of the process after a step; pages of a mapped file do not count."""

    def __init__(self):
        self.peak = 0

    def on_batch_end(self, net, **kwargs):
        self.peak = max(self.peak, anonymous_memory())


def anonymous_memory():
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts memory as Linux does")
def test_memory_stays_below_the_file_size(tmp_path):
    shape, size = (7500, 16, 128), 7500 * 16 * 128 * 4  # 61 MB
    file = np.memmap(tmp_path / "X", np.float32, "w+", shape=shape)
    rng = np.random.default_rng(0)
    for block in np.split(file, 15):
        block[:] = rng.standard_normal(block.shape, dtype=np.float32)
    y, subjects = np.arange(len(file)) % 2, np.arange(len(file)) // 750
    options = {**QUICK, "max_steps": 6, "callbacks": [("memory", MemoryPeak())]}

    def measure(X):
        clf = CensoredEEGClassifier(**options)
        before = anonymous_memory()
        tracemalloc.start()
        clf.fit(X, y[: len(X)], subjects=subjects[: len(X)])
        clf.predict_proba(X[:1000])
        _, traced = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return traced, dict(clf.callbacks_)["memory"].peak - before

    measure(file[:1000])  # Imports and allocations that happen once.
    assert max(measure(file)) < size / 3
    assert min(measure(np.array(file))) > size / 2, "the measure would not see a copy"


def as_hdf5(path, X):
    return h5py.File(path / "X.h5", "w").create_dataset("X", data=X)


def as_zarr(path, X):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(store=path / "X.zarr", shape=X.shape, dtype=X.dtype, chunks=(16, *X.shape[1:]))
    array[:] = X
    return array


def as_memmap(path, X):
    return write(path / "X", X)


@pytest.mark.parametrize(
    ("make", "dtype"),
    [(as_hdf5, np.float32), (as_zarr, np.float32), (as_memmap, np.float16), (as_memmap, np.int16)],
)
def test_formats_and_precisions(data, tmp_path, make, dtype):
    X, y, subjects = data
    X = (100 * X / np.abs(X).max()).astype(dtype)
    array = make(tmp_path, X)
    signals, _ = read_signals(array)
    assert signals.dtype == signals[:3].dtype == np.float32
    for idx in ([5, 2, 9, 2], [3, 4, 5], slice(2, 40, 3)):
        np.testing.assert_array_equal(signals[idx], X[idx])
    np.testing.assert_array_equal(signals.subset(np.array([7, 3, 50]))[[2, 0]], X[[50, 7]])
    fits = (CensoredEEGClassifier(**QUICK).fit(x, y, subjects=subjects).predict_proba(x) for x in (array, X))
    np.testing.assert_allclose(*fits, atol=1e-6)


class Counted(Dataset):
    def __init__(self, X, y):
        self.X, self.y, self.reads = X, y, np.zeros(len(X), dtype=int)

    def __len__(self):
        return len(self.X)

    def __getitem__(self, k):
        self.reads[k] += 1
        return self.X[k], self.y[k]


def test_fit_reads_every_trial_once(data, monkeypatch):
    X, y, subjects = data
    monkeypatch.setattr(stored, "LARGEST_COPY", 0)
    monkeypatch.setattr(stored, "BLOCK", 8)
    monkeypatch.setattr(quality, "_N_STORED", 10)
    dataset = Counted(X, y)
    clf = CensoredEEGClassifier(**{**QUICK, "max_steps": 1}).fit(dataset, subjects=subjects)
    batch = clf.history[0, "batches", 0, "train_batch_size"]
    n_shape_checks = dataset.reads[0] - 1
    assert dataset.reads[1:].min() == 1
    # Before, one block and ten trials are looked at, whether they hold signals.
    assert dataset.reads.sum() <= len(X) + batch + n_shape_checks + 8 + 10


def test_pickle_holds_the_file_name(data, tmp_path):
    X, _, _ = data
    file = write(tmp_path / "X", X)
    signals = StoredSignals(file[10:], np.array([4, 1, 7]))
    sent = pickle.dumps(signals)
    assert len(sent) < 2000 < X.nbytes
    np.testing.assert_array_equal(pickle.loads(sent)[:], X[[14, 11, 17]])
    with pytest.raises(ValueError, match="skips or reverses numbers"):
        pickle.dumps(StoredSignals(file[::2]))
    (tmp_path / "X").unlink()
    with pytest.raises(FileNotFoundError, match="all of them see under the same name"):
        pickle.loads(sent)


def test_nan_in_a_file(data, tmp_path):
    X, y, subjects = data
    X = X.copy()
    X[37, 0, 3] = np.nan
    with pytest.raises(ValueError, match="first in trial 37: drop or interpolate"):
        CensoredEEGClassifier(**QUICK).fit(write(tmp_path / "X", X), y, subjects=subjects)
