"""Trials that stay where they are, in a file or a dataset, and are read a few at a time."""

import numpy as np
from torch.utils.data import ConcatDataset, Dataset

__all__ = [
    "BLOCK",
    "LARGEST_COPY",
    "StoredSignals",
    "check_finite",
    "is_stored",
    "read_blocks",
    "take_part",
    "targets_of",
]

#: Bytes of a dataset above which it is not copied into memory. Files (memmap, zarr, HDF5) never are.
LARGEST_COPY = 2**31
#: Trials that are read at a time where all are looked at once.
BLOCK = 64


def is_stored(X):
    """Tell whether trials are to be read a few at a time."""
    if isinstance(X, Dataset):
        return bool(len(X)) and len(X) * np.asarray(X[0][0]).nbytes > LARGEST_COPY
    if isinstance(X, np.ndarray):
        return isinstance(X, np.memmap)
    outside = not hasattr(X, "detach") and not isinstance(X, list | tuple)  # neither a tensor nor a list
    return outside and all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))


class StoredSignals:
    """Signals that are read when they are asked for, and look like an array otherwise."""

    ndim = 3

    def __init__(self, source, places=None, change=None, dtype=None):
        self.source, self.places, self.change = source, places, change
        shape, kept = getattr(source, "shape", None), getattr(source, "dtype", None)
        if isinstance(source, Dataset):
            first = np.asarray(source[0][0])
            shape, kept = (len(source), *first.shape), first.dtype
        self.shape = (shape[0] if places is None else len(places), *shape[1:])
        wide = np.issubdtype(kept, np.floating) and kept.itemsize >= 4
        self.dtype = np.dtype(dtype or (kept if wide else np.float32))

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        if isinstance(index, slice):
            index = np.arange(*index.indices(len(self)))
        index = np.asarray(index)
        index = np.flatnonzero(index) if index.dtype == bool else index
        if index.ndim == 0:
            return self[index[None]][0]
        places = index if self.places is None else self.places[index]
        block = _read(self.source, places).astype(self.dtype, copy=False)
        check_finite(block, index)
        return block if self.change is None else self.change(block, index)

    def __iter__(self):
        for block in read_blocks(self):
            yield from block

    def __array__(self, dtype=None, copy=None):
        out = np.empty(self.shape, self.dtype if dtype is None else dtype)
        for start in range(0, len(self), BLOCK):
            out[start : start + BLOCK] = self[start : start + BLOCK]
        return out

    def __getstate__(self):
        state = dict(vars(self))
        if isinstance(self.source, np.memmap):  # its name travels, not its content
            state["source"] = _describe_file(self.source)
        return state

    def __setstate__(self, state):
        vars(self).update(state)
        if isinstance(self.source, dict):
            try:
                self.source = np.memmap(mode="r", **self.source)
            except FileNotFoundError:
                raise FileNotFoundError(
                    f"{self.source['filename']} is not on this machine: workers read the file themselves, so put it "
                    "on a disk that all of them see under the same name."
                ) from None

    @property
    def nbytes(self):
        """Bytes that the signals would fill in memory."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def part(self, positions):
        """Return some of the trials, without reading them."""
        places = positions if self.places is None else self.places[positions]
        return StoredSignals(self.source, places, dtype=self.dtype)

    def changed(self, change):
        """Return the signals as they will be after a change, without reading them."""
        return StoredSignals(self.source, self.places, change, self.dtype)

    def astype(self, dtype):
        """Return the signals in another precision, without reading them."""
        return StoredSignals(self.source, self.places, self.change, dtype)


def _read(source, places):
    if isinstance(source, Dataset):
        return np.stack([np.asarray(source[int(place)][0]) for place in places])
    if isinstance(source, np.ndarray):
        return np.asarray(source)[places]
    ordered, where = np.unique(places, return_inverse=True)
    if ordered[-1] - ordered[0] + 1 == len(ordered):
        ordered = slice(int(ordered[0]), int(ordered[-1]) + 1)
    return np.asarray(source[ordered])[where]


def _describe_file(array):
    if not array.flags.c_contiguous:
        raise ValueError(
            "X is a view of a file that skips or turns numbers, which other processes cannot open: write the trials "
            "one after the other into a file of their own, or use n_jobs=1."
        )
    root = array
    while isinstance(root.base, np.memmap):
        root = root.base
    offset = root.offset + array.ctypes.data - root.ctypes.data
    return {"filename": str(root.filename), "dtype": array.dtype, "shape": array.shape, "offset": int(offset)}


def take_part(X, positions):
    """Return some trials: a copy of what is in memory, and a view of what is not."""
    return X.part(positions) if isinstance(X, StoredSignals) else X[positions]


def read_blocks(X, positions=None):
    """Read trials one block after the other."""
    n_trials = len(X) if positions is None else len(positions)
    for start in range(0, n_trials, BLOCK):
        here = slice(start, min(start + BLOCK, n_trials))
        yield X[here] if positions is None else X[positions[here]]


def check_finite(signals, places=None):
    """Raise for signals that are no numbers."""
    if np.isfinite(signals.sum(dtype=np.float64)):  # one pass; the sum of huge numbers alone may overflow
        return
    finite = np.isfinite(signals).all(axis=(1, 2))
    if not finite.all():
        first = np.flatnonzero(~finite)[0]
        raise ValueError(
            f"X has NaN or infinite values in {(~finite).sum()} of {len(finite)} trials, first in trial "
            f"{first if places is None else places[first]}: drop or interpolate them."
        )


def targets_of(dataset):
    """Return the classes of a dataset's trials, without reading signals where the dataset knows them."""
    if isinstance(dataset, ConcatDataset):
        return np.concatenate([targets_of(part) for part in dataset.datasets])
    known = getattr(dataset, "y", None)
    if known is not None and len(known) == len(dataset):
        return np.asarray(known)
    return np.asarray([dataset[place][1] for place in range(len(dataset))])
