"""Where the subject labels of a batch come from, on a net that knows nothing about subjects.

skorch hands a callback the batch's x and y only. So while the training loader is being built, its dataset is
wrapped to yield one item more, the trial's label, and the loader is wrapped to take that item off again.
Labels travel with their trials, whatever the sampler, the collation or the number of worker processes.
"""

import mne
import numpy as np
import pandas as pd
import torch
from skorch.helper import SliceDataset
from torch.utils.data import ConcatDataset, Dataset, Subset

__all__ = ["LabelTap", "find_labels"]

# Parts of a dataset, which leave its items as they are.
_WRAPPERS = (Subset, SliceDataset)


def find_labels(data, key="subject"):
    """Look for the label of every trial in the data itself."""
    if isinstance(data, mne.BaseEpochs):
        return _column(data.metadata, key)
    labels = getattr(data, f"{key}s", None)
    if labels is not None:
        return np.asarray(labels)
    if isinstance(data, ConcatDataset):
        parts = [find_labels(part, key) for part in data.datasets]
        return None if any(part is None for part in parts) else np.concatenate(parts)
    if isinstance(data, _WRAPPERS):
        labels = find_labels(data.dataset, key)
        return None if labels is None else labels[_positions(data)]
    description = getattr(data, "description", None)
    if description is not None and key in description:
        return np.full(len(data), description[key])
    return _column(getattr(data, "metadata", None), key)


def _column(table, key):
    return table[key].to_numpy() if isinstance(table, pd.DataFrame) and key in table else None


def _positions(wrapper):
    """Return where the items of a wrapper lie in the dataset that it is a part of."""
    return np.asarray(wrapper.indices_ if isinstance(wrapper, SliceDataset) else wrapper.indices, dtype=int)


def _unwind(dataset, root=None):
    """Follow nested subsets to the dataset at their root, or to a given one, with the positions in it."""
    if isinstance(dataset, _Labelled):  # another tap's
        return _unwind(dataset.dataset, root)
    if not isinstance(dataset, _WRAPPERS) or dataset is root:
        return dataset, np.arange(len(dataset))
    root, positions = _unwind(dataset.dataset, root)
    return root, positions[_positions(dataset)]


class LabelTap:
    """A loader factory that replaces ``net.iterator_train`` for one call and taps the labels."""

    def __init__(self, net, owner, labels, key, data=None):
        self.net, self.owner = net, owner
        (self.given, self.found), self.key, self.data = labels, key, data
        self.factory = _without_leftovers(net.iterator_train, owner)
        net.iterator_train = self

    def __reduce__(self):
        return _itself, (self.factory,)  # a copy of a net gets the net's own loader

    def __call__(self, dataset, **kwargs):
        """Build the net's own loader over the labelled dataset."""
        # At once, and not when training ends: an error in between must not leave the net changed.
        self.net.iterator_train = self.factory
        if all(callback is not self.owner for _, callback in self.net.callbacks_):
            return self.factory(dataset, **kwargs)  # left over from a training that failed
        codes = torch.as_tensor(self.owner.receive(self._labels_of(dataset)), dtype=torch.int64)
        return _TappedLoader(self.factory(_Labelled(dataset, codes), **kwargs), self.owner.deliver)

    def _labels_of(self, dataset):
        root, positions = _unwind(dataset)
        if self.given is not None and isinstance(self.data, _WRAPPERS) and len(self.given) == len(self.data):
            root, positions = _unwind(
                dataset, self.data
            )  # one label per trial of X, not of what X is a part of
        candidates = (self.given, find_labels(root, self.key), self.found)
        labels = next(labels for labels in candidates if labels is not None)
        if len(labels) != len(root):
            raise ValueError(
                f"{self.key}s: {len(labels)} labels for {len(root)} trials. Pass one label per trial of the "
                "X that fit gets: Censor(..., subjects=labels). In a cross-validation fit gets a part of X; there use "
                "CensoredEEGClassifier, whose fit takes the subjects of that part."
            )
        return labels[positions]


def _without_leftovers(factory, owner):
    """Take off all taps if one of them is the owner's: then they are of a training that failed."""
    inner, is_leftover = factory, False
    while isinstance(inner, LabelTap):
        inner, is_leftover = inner.factory, is_leftover or inner.owner is owner
    return inner if is_leftover else factory


def _itself(value):
    return value


class _Labelled(Dataset):
    """The items of a dataset with one more each: the label. Takes single positions and lists of them."""

    def __init__(self, dataset, codes):
        self.dataset, self.codes, self.array = dataset, codes, codes.numpy()

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, position):
        # indexing a tensor with a list takes several times as long
        codes = torch.from_numpy(self.array[position]) if isinstance(position, list) else self.codes[position]
        return (*self.dataset[position], codes)


class _TappedLoader:
    """A loader that hands the last item of every batch elsewhere."""

    def __init__(self, loader, deliver):
        self.loader, self.deliver = loader, deliver

    def __iter__(self):
        for *batch, codes in self.loader:
            if len(batch) < 2:  # signals and classes, and nothing else
                raise ValueError(
                    "The training loader drops whose trial each one is. Braindecode's AugmentedDataLoader does so when "
                    "it appends copies: use iterator_train__n_augmentation=0, which augments in place."
                )
            self.deliver(codes)
            yield tuple(batch)

    def __len__(self):
        return len(self.loader)

    def __getattr__(self, name):
        # Braindecode reads the loader's settings (batch_size, drop_last, dataset).
        return getattr(self.__dict__["loader"], name)
