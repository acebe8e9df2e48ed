"""Trials as a dataset that is indexed by whole batches and never collated: in memory, or read from a file."""

import warnings
from collections import Counter

import mne
import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler

from braindecode_censor._check import check_complete
from braindecode_censor.trials.stored import (
    BLOCK,
    StoredSignals,
    check_finite,
    is_stored,
    read_blocks,
    targets_of,
)

__all__ = [
    "SIGNALS",
    "TrialLoader",
    "Trials",
    "check_labels",
    "check_sense",
    "home",
    "read_signals",
    "signal_names",
]

#: MNE's types of the channels that are decoded.
SIGNALS = ("eeg", "ecog", "emg", "seeg")


class Trials(Dataset):
    """A dataset whose items are whole batches when it is indexed by a list."""

    def __init__(self, x, y=None, subjects=None, pinned=False):
        self.x, self.pinned = x, pinned
        device = getattr(x, "device", None)
        self.y = torch.zeros(len(x), dtype=torch.int64, device=device) if y is None else y
        self.subjects = subjects
        self.moments = None
        self._last = None

    def __len__(self):
        return len(self.x)

    def __getitem__(self, idx):
        idx = torch.as_tensor(idx, device=self.y.device)
        if idx.ndim != 1:
            return self.take(idx[None] % len(self))[0], self.y[idx]
        x = self.take(idx)
        self._last = x, x._version, idx
        return x, self.y[idx]

    def take(self, idx):
        """Return the signals of some trials; stored ones are read, and normalised, now."""
        if isinstance(self.x, StoredSignals):
            x = torch.as_tensor(self.x[idx.numpy()], dtype=torch.float32)
            return x.pin_memory() if self.pinned else x
        return self.x.index_select(0, idx)  # This copies whole trials, twice as fast as x[idx].

    def compute_moments(self, lag_moments, idx):
        """Compute once what a network needs of every single trial."""
        for block in torch.as_tensor(idx, device=self.y.device).split(BLOCK):
            moments = lag_moments(self.take(block))
            if self.moments is None:  # The system gives no memory to rows that are never written.
                self.moments = moments.new_empty(len(self), *moments.shape[1:])
            self.moments[block] = moments

    def moments_of(self, x):
        """Return the moments of the batch that was fetched last, or None for other or changed signals."""
        if self.moments is None or self._last is None:
            return None
        last, version, idx = self._last
        return self.moments.index_select(0, idx) if x is last and x._version == version else None


class TrialLoader(DataLoader):
    """torch's loader, which fetches each batch by one indexing instead of collating its trials.

    It draws from torch's generator as a plain ``DataLoader`` with the same options does, so the same seed gives the
    same batches.
    """

    def __init__(self, dataset, batch_size=64, shuffle=False, drop_last=False, batches=None, **kwargs):
        if batches is None:
            order = RandomSampler(dataset) if shuffle else SequentialSampler(dataset)
            batches = BatchSampler(order, max(1, min(batch_size, len(dataset))), drop_last)
        super().__init__(dataset, sampler=batches, batch_size=None, **kwargs)


def home(nbytes, device):
    """Return the device that keeps the trials during training."""
    device = torch.device(device)
    if device.type == "cuda" and 2 * nbytes > torch.cuda.mem_get_info(device)[0]:
        return torch.device("cpu")
    return device


def signal_names(X):
    """Return the names of the channels of Epochs that are decoded, None of other trials."""
    if not isinstance(X, mne.BaseEpochs):
        return None
    types = dict(zip(X.ch_names, X.get_channel_types()))
    count = Counter(ch_type for ch_type in types.values() if ch_type in SIGNALS)
    decoded = max(count, key=count.get, default=None)
    names = [name for name in X.ch_names if types[name] == decoded and name not in X.info["bads"]]
    if decoded is None or not names:
        raise ValueError(
            f"X has no good channel of {', '.join(SIGNALS)}, but {', '.join(sorted(set(types.values())))}: set the "
            "channels' types, or their bad ones."
        )
    return names


def read_signals(X):
    """Return the checked signals of any input as one array, and the classes that a dataset carries or None."""
    targets = None
    if isinstance(X, StoredSignals):
        return X, None
    try:
        in_file = is_stored(X)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"X cannot be read; is its file closed? {error}") from None
    if in_file:
        first = read_array("X", X[0][0] if isinstance(X, Dataset) else X[:0])
        _check_form((len(X), *first.shape) if isinstance(X, Dataset) else X.shape, first.dtype)
        return StoredSignals(X), targets_of(X) if isinstance(X, Dataset) else None
    if isinstance(X, mne.BaseEpochs):
        names = signal_names(X)
        types = set(X.get_channel_types(picks=names))
        signals = X.get_data(picks=names, units=dict.fromkeys(types, "uV"))
    elif isinstance(X, Dataset):
        items = [X[k][:2] for k in range(len(X))]
        signals = read_array("X", [read_array("X", x) for x, _ in items])
        targets = np.asarray([y for _, y in items])
    else:
        signals = read_array("X", X)
    _check_form(signals.shape, signals.dtype)
    if not np.issubdtype(signals.dtype, np.floating) or signals.dtype.itemsize not in (4, 8):
        signals = signals.astype(np.float32)  # Half precision is too coarse.
    check_finite(signals)
    return signals, targets


def read_array(name, values):
    """Return any array-like as an array, raising for one that NumPy would read as something else."""
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} is a masked array, whose mask would be ignored: drop or fill its masked values."
        )
    try:
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu()
            values = values.float() if values.dtype == torch.bfloat16 else values  # NumPy has no such type.
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} cannot be read as one array of numbers: {error}") from None


def _check_form(shape, dtype):
    if dtype.kind not in "biuf":
        raise ValueError(f"X has the type {dtype}: expected an array of real numbers.")
    if len(shape) != 3 or 0 in shape:
        raise ValueError(
            f"X has shape {shape}: expected (n_trials, n_chans, n_times), none of them zero. "
            "For one channel use X[:, None, :]."
        )


def check_labels(name, labels, n_trials, remedy):
    """Return labels as an array, raising unless there is one per trial."""
    if labels is None:
        raise ValueError(f"{name}=None: {remedy}")
    shape = read_array(name, labels).shape
    if shape != (n_trials,):
        raise ValueError(f"{name} has shape {shape} and X has {n_trials} trials: pass one per trial.")
    return check_complete(name, labels if isinstance(labels, (list, tuple)) else read_array(name, labels))


def check_sense(signals, classes):
    """Raise for signals that are constant, and warn of classes that are probably one."""
    # Of a file one block is read, unless it is constant.
    if signals.shape[2] > 1 and not any(np.ptp(block, axis=-1).any() for block in read_blocks(signals)):
        raise ValueError("X: all channels are constant in all trials: check the signals.")
    spellings = {}
    for name in classes.tolist():
        spellings.setdefault(str(name).strip().casefold(), []).append(name)
    for names in spellings.values():
        if len(names) > 1:
            warnings.warn(
                f"y: the classes {', '.join(map(repr, names))} differ in case or spaces only and are decoded as "
                "different classes; if they are one, give them one name.",
                stacklevel=4,
            )
