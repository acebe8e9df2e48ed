"""Subject labels stay with their trials, however the dataset is wrapped."""

import warnings

import mne
import numpy as np
import pandas as pd
import pytest
import torch
from braindecode.datasets import create_from_X_y
from skorch.helper import SliceDataset
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from braindecode_censor.trials.subject_labels import find_labels

N_TRIALS = 5


@pytest.fixture(scope="module")
def windows():
    """Three subjects as Braindecode windows, five trials each."""
    X = np.random.default_rng(0).normal(size=(3, N_TRIALS, 2, 50)).astype("float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        datasets = [create_from_X_y(x, [0, 1, 0, 1, 0], drop_last_window=False, sfreq=50.0) for x in X]
    whole = datasets[0].__class__(datasets)
    whole.set_description({"subject": np.repeat(["anna", "bert", "cleo"], N_TRIALS).tolist()})
    return whole


LABELS = np.repeat(["anna", "bert", "cleo"], N_TRIALS)
WRAP = pytest.mark.parametrize(
    "wrap", [Subset, lambda data, idx: SliceDataset(data)[np.array(idx)]], ids=["torch", "skorch"]
)


def test_braindecode_dataset(windows):
    assert find_labels(windows).tolist() == LABELS.tolist()
    assert find_labels(windows.datasets[7]).tolist() == ["bert"] * len(windows.datasets[7])
    assert find_labels(windows, "session") is None


@WRAP
def test_subset(windows, wrap):
    assert find_labels(wrap(windows, [14, 0, 6, 7])).tolist() == ["cleo", "anna", "bert", "bert"]


def test_nested_subsets(windows):
    inner = Subset(windows, [12, 3, 8, 1])
    nested = Subset(SliceDataset(Subset(inner, [3, 2, 0]))[np.array([0, 2])], [1, 0])
    assert find_labels(nested).tolist() == ["cleo", "anna"]
    assert find_labels(ConcatDataset([inner, windows])).tolist() == ["cleo", "anna", "bert", "anna", *LABELS]


def test_plain_datasets():
    plain = TensorDataset(torch.zeros(3, 2, 4), torch.zeros(3))
    assert find_labels(plain) is None
    assert find_labels(Subset(plain, [0])) is None
    assert find_labels(np.zeros((3, 2, 4))) is None
    plain.subjects = ["a", "b", "c"]
    assert find_labels(Subset(plain, [2, 1])).tolist() == ["c", "b"]
    assert find_labels(ConcatDataset([plain, Subset(TensorDataset(torch.zeros(2)), [0])])) is None


def test_epochs():
    info = mne.create_info(2, 50.0, "eeg")
    data = np.zeros((3, 2, 50))
    assert find_labels(mne.EpochsArray(data, info, verbose="ERROR")) is None
    table = pd.DataFrame({"subject": [4, 4, 9]})
    assert find_labels(mne.EpochsArray(data, info, metadata=table, verbose="ERROR")[1:]).tolist() == [4, 9]
