"""Subject labels of a batch, for a net whose batches hold signals and classes only.

skorch passes a callback the x and y of a batch. So while the training loader is built, its dataset is wrapped to
yield one item more, the trial's label, and the loader is wrapped to remove that item again. Labels stay with their
trials, whatever the sampler, the collation or the number of worker processes.
"""

import mne
import numpy as np
import pandas as pd
import torch
from skorch.helper import SliceDataset
from torch.utils.data import ConcatDataset, Dataset, Subset

from braindecode_censor.trials.dataset import check_labels

__all__ = ["LabelTap", "find_labels", "read_labels"]

# Wrappers that select items of a dataset and do not change them.
_WRAPPERS = (Subset, SliceDataset)
_REMEDY = "pass one label per trial, or zeros if all trials are of one subject."


def read_labels(X, subjects, n_trials, remedy=_REMEDY):
    """Return the subject of every trial, as passed by the user or as carried by the data."""
    return check_labels("subjects", find_labels(X) if subjects is None else subjects, n_trials, remedy)


def find_labels(data, key="subject"):
    """Return the label of every trial that the data carry, or None."""
    if isinstance(data, mne.BaseEpochs):
        return _column(data.metadata, key)
    labels = getattr(data, f"{key}s", None)
    if labels is not None:
        return np.asarray(labels)
    if isinstance(data, ConcatDataset):
        blocks = [find_labels(dataset, key) for dataset in data.datasets]
        return None if any(block is None for block in blocks) else np.concatenate(blocks)
    if isinstance(data, _WRAPPERS):
        labels = find_labels(data.dataset, key)
        return None if labels is None else labels[_indices(data)]
    description = getattr(data, "description", None)
    if description is not None and key in description:
        return np.full(len(data), description[key])
    return _column(getattr(data, "metadata", None), key)


def _column(table, key):
    return table[key].to_numpy() if isinstance(table, pd.DataFrame) and key in table else None


def _indices(wrapper):
    return np.asarray(wrapper.indices_ if isinstance(wrapper, SliceDataset) else wrapper.indices, dtype=int)


def _unwrap(dataset, root=None):
    """Follow nested subsets to the innermost dataset, or to `root`; return it and the items' indices in it."""
    if isinstance(dataset, _Labelled):  # Another tap made this.
        return _unwrap(dataset.dataset, root)
    if not isinstance(dataset, _WRAPPERS) or dataset is root:
        return dataset, np.arange(len(dataset))
    root, indices = _unwrap(dataset.dataset, root)
    return root, indices[_indices(dataset)]


class LabelTap:
    """A loader factory that replaces ``net.iterator_train`` for one call and passes the labels to a callback."""

    def __init__(self, net, callback, labels, data_labels, key, data=None):
        self.net, self.callback = net, callback
        self.labels, self.data_labels, self.key, self.data = labels, data_labels, key, data
        self.factory = _without_old_taps(net.iterator_train, callback)
        net.iterator_train = self

    def __reduce__(self):
        return _identity, (self.factory,)  # A copy of a net gets the net's own loader.

    def __call__(self, dataset, **kwargs):
        """Build the net's own loader over the labelled dataset."""
        # At once, and not when training ends: an error in between must not leave the net changed.
        self.net.iterator_train = self.factory
        if all(callback is not self.callback for _, callback in self.net.callbacks_):
            return self.factory(dataset, **kwargs)  # This tap is of a training that failed.
        codes = torch.as_tensor(self.callback.receive(self._labels_of(dataset)), dtype=torch.int64)
        return _TappedLoader(self.factory(_Labelled(dataset, codes), **kwargs), self.callback.deliver)

    def _labels_of(self, dataset):
        # One label per trial of X, or of the dataset that X is a subset of.
        is_of_subset = isinstance(self.data, _WRAPPERS) and self.labels is not None
        root = self.data if is_of_subset and len(self.labels) == len(self.data) else None
        root, indices = _unwrap(dataset, root)
        candidates = (self.labels, find_labels(root, self.key), self.data_labels)
        labels = next(labels for labels in candidates if labels is not None)
        if len(labels) != len(root):
            raise ValueError(
                f"{self.key}s: {len(labels)} labels for {len(root)} trials. Pass one label per trial of the "
                "X that fit gets: Censor(..., subjects=labels). In a cross-validation fit gets a subset of X; there "
                "use CensoredEEGClassifier, whose fit takes the subjects of that subset."
            )
        return labels[indices]


def _without_old_taps(factory, callback):
    """Remove all taps if one of them is the callback's: then they are of a training that failed."""
    inner, is_old = factory, False
    while isinstance(inner, LabelTap):
        inner, is_old = inner.factory, is_old or inner.callback is callback
    return inner if is_old else factory


def _identity(value):
    return value


class _Labelled(Dataset):
    """The items of a dataset with one more each, the label. Takes single indices and lists of them."""

    def __init__(self, dataset, codes):
        self.dataset, self.codes, self.array = dataset, codes, codes.numpy()

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, idx):
        # Indexing a tensor with a list takes several times as long.
        codes = torch.from_numpy(self.array[idx]) if isinstance(idx, list) else self.codes[idx]
        return (*self.dataset[idx], codes)


class _TappedLoader:
    """A loader that passes the last item of every batch to a function."""

    def __init__(self, loader, deliver):
        self.loader, self.deliver = loader, deliver

    def __iter__(self):
        for *batch, codes in self.loader:
            if len(batch) < 2:
                raise ValueError(
                    "The training loader drops the subject of every trial. Braindecode's AugmentedDataLoader does so "
                    "when it appends copies: use iterator_train__n_augmentation=0, which augments in place."
                )
            self.deliver(codes)
            yield tuple(batch)

    def __len__(self):
        return len(self.loader)

    def __getattr__(self, name):
        # Braindecode reads the loader's settings (batch_size, drop_last, dataset).
        return getattr(self.__dict__["loader"], name)
