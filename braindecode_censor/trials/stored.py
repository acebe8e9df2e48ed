"""Trials that stay in a file or a dataset, and are read block by block."""

import numpy as np
from torch.utils.data import ConcatDataset, Dataset

__all__ = ["BLOCK", "LARGEST_COPY", "StoredSignals", "check_finite", "is_stored", "read_blocks", "targets_of"]

#: Bytes of a dataset above which it is not copied into memory. Files (memmap, zarr, HDF5) never are.
LARGEST_COPY = 2**31
#: Trials that are read at a time.
BLOCK = 64


def is_stored(X):
    """Return whether trials are to be read block by block."""
    if isinstance(X, Dataset):
        return bool(len(X)) and len(X) * np.asarray(X[0][0]).nbytes > LARGEST_COPY
    if isinstance(X, (np.ndarray, np.generic)):
        return isinstance(X, np.memmap)
    is_file = not hasattr(X, "detach") and not isinstance(X, list | tuple)  # neither a tensor nor a list
    return is_file and all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))


class StoredSignals:
    """Signals that are read, and mapped, when they are indexed, and look like an array otherwise."""

    ndim = 3

    def __init__(self, source, rows=None, function=None, dtype=None):
        self.source, self.rows, self.function = source, rows, function
        shape, source_dtype = getattr(source, "shape", None), getattr(source, "dtype", None)
        if isinstance(source, Dataset):
            first = np.asarray(source[0][0])
            shape, source_dtype = (len(source), *first.shape), first.dtype
        self.shape = (shape[0] if rows is None else len(rows), *shape[1:])
        is_wide = np.issubdtype(source_dtype, np.floating) and source_dtype.itemsize >= 4
        self.dtype = np.dtype(dtype or (source_dtype if is_wide else np.float32))

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            idx = np.arange(*idx.indices(len(self)))
        idx = np.asarray(idx)
        idx = np.flatnonzero(idx) if idx.dtype == bool else idx
        if idx.ndim == 0:
            return self[idx[None]][0]
        rows = idx if self.rows is None else self.rows[idx]
        block = _read(self.source, rows).astype(self.dtype, copy=False)
        check_finite(block, idx)
        return block if self.function is None else self.function(block, idx)

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
        if isinstance(self.source, np.memmap):  # Pickle its name instead of its content.
            state["source"] = _describe_file(self.source)
        elif type(self.source).__module__.startswith("h5py."):
            state["source"] = {"filename": self.source.file.filename, "name": self.source.name}
        return state

    def __setstate__(self, state):
        vars(self).update(state)
        if isinstance(self.source, dict):
            try:
                self.source = _open_file(**self.source)
            except FileNotFoundError:
                raise FileNotFoundError(
                    f"{self.source['filename']} is not on this machine: workers read the file themselves, so put it "
                    "on a disk that all of them see under the same name."
                ) from None

    @property
    def nbytes(self):
        """Bytes of the signals in memory."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def subset(self, idx):
        """Return some of the trials, without reading them."""
        return StoredSignals(self.source, idx if self.rows is None else self.rows[idx], dtype=self.dtype)

    def mapped(self, function):
        """Return the signals after a function of a block and its indices, without reading them."""
        return StoredSignals(self.source, self.rows, function, self.dtype)

    def astype(self, dtype):
        """Return the signals in another precision, without reading them."""
        return StoredSignals(self.source, self.rows, self.function, dtype)


def _read(source, rows):
    if isinstance(source, Dataset):
        return np.stack([np.asarray(source[int(row)][0]) for row in rows])
    if isinstance(source, np.ndarray):
        return np.asarray(source)[rows]
    unique_rows, order = np.unique(rows, return_inverse=True)
    if unique_rows[-1] - unique_rows[0] + 1 == len(unique_rows):
        unique_rows = slice(int(unique_rows[0]), int(unique_rows[-1]) + 1)
    return np.asarray(source[unique_rows])[order]


def _describe_file(array):
    if not array.flags.c_contiguous:
        raise ValueError(
            "X is a view of a file that skips or reverses numbers, which other processes cannot open: write the trials "
            "one after the other into a new file, or use n_jobs=1."
        )
    root = array
    while isinstance(root.base, np.memmap):
        root = root.base
    offset = root.offset + array.ctypes.data - root.ctypes.data
    return {"filename": str(root.filename), "dtype": array.dtype, "shape": array.shape, "offset": int(offset)}


def _open_file(filename, name=None, **form):
    if name is None:
        return np.memmap(filename, mode="r", **form)
    import h5py

    return h5py.File(filename, "r")[name]


def read_blocks(X, idx=None):
    """Yield trials block by block."""
    for start in range(0, len(X) if idx is None else len(idx), BLOCK):
        block = slice(start, start + BLOCK)
        yield X[block] if idx is None else X[idx[block]]


def check_finite(signals, idx=None):
    """Raise for NaN, infinite values, and those that are infinite in single precision."""
    limit = np.finfo(np.float32).max
    if signals.max() <= limit and signals.min() >= -limit:  # NaN is neither.
        return
    finite = (np.abs(signals) <= limit).all(axis=(1, 2))
    first = np.flatnonzero(~finite)[0]
    raise ValueError(
        f"X has NaN or infinite values in {(~finite).sum()} of {len(finite)} trials, first in trial "
        f"{first if idx is None else idx[first]}: drop or interpolate them. Beyond single precision counts as infinite."
    )


def targets_of(dataset):
    """Return the classes of a dataset's trials, without reading signals where the dataset has an array of them."""
    if isinstance(dataset, ConcatDataset):
        return np.concatenate([targets_of(block) for block in dataset.datasets])
    y = getattr(dataset, "y", None)
    if y is not None and len(y) == len(dataset):
        return np.asarray(y)
    return np.asarray([dataset[k][1] for k in range(len(dataset))])
