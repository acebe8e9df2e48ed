"""One reader of signals and one of labels: what NumPy would read as something else is refused by name."""

import datetime
import decimal

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from braindecode_censor.trials.dataset import check_labels, check_sense, read_signals

X = np.random.default_rng(0).standard_normal((4, 2, 8))


def closed_file(tmp_path):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        return file.create_dataset("X", data=X)


SIGNALS = {
    "masked": (np.ma.masked_greater(X, 1), "X is a masked array"),
    "complex": (X + 1j, "X has the type complex128"),
    "dates": (X.astype("datetime64[s]"), r"X has the type datetime64\[s\]"),
    "durations": (X.astype("timedelta64[s]"), "X has the type timedelta64"),
    "structured": (X.astype([("volt", float)]), "X has the type"),
    "texts": (X.astype(str), "X has the type <U"),
    "objects": (X.astype(object), "X has the type object"),
    "ragged": ([X[0], X[1, :1]], "X cannot be read as one array of numbers"),
    "sparse": (scipy.sparse.csr_array(X[0]), "X has the type object"),
    "sparse tensor": (torch.as_tensor(X).to_sparse(), "X cannot be read"),
    "dictionary": ({"X": X}, "X has the type object"),
    "ragged dataset": (
        torch.utils.data.StackDataset([X[0], X[1, :1]], [0, 1]),
        "X cannot be read as one array",
    ),
    "beyond single precision": (1e300 * X, "X has NaN or infinite values in 4 of 4 trials, first in trial 0"),
}


@pytest.mark.parametrize("name", SIGNALS)
def test_signals_that_are_none(name):
    value, message = SIGNALS[name]
    with pytest.raises(ValueError, match=message):
        read_signals(value)


def test_closed_file(tmp_path):
    with pytest.raises(ValueError, match="X cannot be read; is its file closed"):
        read_signals(closed_file(tmp_path))


def test_file_of_zeros(tmp_path):
    np.save(tmp_path / "X", np.zeros_like(X))
    signals, _ = read_signals(np.load(tmp_path / "X.npy", mmap_mode="r"))
    with pytest.raises(ValueError, match="all channels are constant in all trials"):
        check_sense(signals, np.arange(2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_tensors_of_any_precision(dtype):
    x = torch.as_tensor(X, dtype=dtype).requires_grad_()
    np.testing.assert_allclose(read_signals(x)[0], X, rtol=1e-2)


def test_unmasked_and_long_signals_are_arrays():
    np.testing.assert_array_equal(read_signals(np.ma.array(X))[0], X)
    assert read_signals(X.astype(np.longdouble))[0].dtype == np.float32


LABELS = {
    "bytes": (np.array([b"a", b"b", b"a", b"b"]), r"y has the type \|S1"),
    "dates": (np.arange(4).astype("datetime64[D]"), "y has the type datetime64"),
    "complex": (np.arange(4) + 1j, "y has the type complex"),
    "date objects": ([datetime.date(2026, 1, k) for k in range(1, 5)], "y holds objects of type date"),
    "decimals": ([decimal.Decimal(k) for k in range(4)], "y holds objects of type Decimal"),
    "truth and number": ([True, 2, 2, True], "y mixes bool and int"),
    "number and text": ([1, "a", "a", 1], "y mixes int and str"),
    "missing": (pd.array([1, None, 2, 1], dtype="Int64"), "y has missing values, first in trial 1"),
    "half a character": (["a", "b\ud800", "a", "a"], "y has a label with half a character"),
    "masked": (np.ma.masked_equal([0, 1, 0, 1], 0), "y is a masked array"),
    "ragged": ([[1], [1, 2], 3, 4], "y cannot be read as one array"),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_that_are_none(name):
    labels, message = LABELS[name]
    with pytest.raises(ValueError, match=message):
        check_labels("y", labels, 4, "pass one class per trial.")


@pytest.mark.parametrize(
    "labels",
    [[0, 1, 0, 2.5], ["a", "b", "a", "b"], torch.arange(4), pd.Series(list("abab")), [np.int64(1), 2, 1, 2]],
    ids=str,
)
def test_labels_of_one_type_stay(labels):
    np.testing.assert_array_equal(check_labels("y", labels, 4, ""), np.asarray(labels))
