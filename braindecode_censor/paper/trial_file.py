"""Trials as MOABB cuts them, run by run: in memory while they are few, otherwise in a file of the folder of results."""

import contextlib
import weakref

import numpy as np
from sklearn.preprocessing import FunctionTransformer

from braindecode_censor.storage.files import clear_errors, make_scratch
from braindecode_censor.trials import stored

__all__ = ["TrialFile", "read_trials"]


class TrialFile:
    """Signals that come run by run, in memory or in a file; the file is removed with this object."""

    def __init__(self, folder):
        self.folder, self.path = folder, None
        self.blocks, self.count, self.size = [], 0, 0
        self.shape = self.dtype = None

    def add(self, signals):
        """Append the trials of a MOABB run, and return their positions."""
        if self.shape is None:
            self.shape, self.dtype = signals.shape[1:], signals.dtype
        if signals.shape[1:] != self.shape:
            raise ValueError(
                f"some trials have {signals.shape[1:]} channels and samples and some {self.shape}: choose channels "
                "that all subjects have, and resample, in the paradigm."
            )
        positions = np.arange(self.count, self.count + len(signals))
        self.count, self.size = self.count + len(signals), self.size + signals.nbytes
        self.blocks.append(signals)
        if self.folder is not None and self.size > stored.LARGEST_COPY:
            self._write()
        return positions[:, None, None]

    def _write(self):
        if self.path is None:
            self.path = make_scratch(self.folder)
            weakref.finalize(self, _remove, self.path)  # at the end of the process at the latest
        with clear_errors(self.folder), open(self.path, "ab") as file:
            for block in self.blocks:
                file.write(np.ascontiguousarray(block, self.dtype))
        self.blocks = []

    def take(self, positions):
        """Return the trials at some positions."""
        if self.path is None:
            X, self.blocks = np.concatenate(self.blocks), []
            return X if np.array_equal(positions, np.arange(self.count)) else X[positions]
        source = np.memmap(self.path, self.dtype, "r", shape=(self.count, *self.shape))
        return stored.StoredSignals(source, positions)


def _remove(path):
    with contextlib.suppress(OSError):  # Windows removes no open file; the next experiment does.
        path.unlink()


def read_trials(dataset, paradigm, folder=None):
    """Return signals, labels, metadata and the file of the signals, with one subject's trials in memory at a time."""
    if len(paradigm.filters) > 1:  # MOABB stacks the frequency bands of all subjects itself.
        return *paradigm.get_data(dataset), None
    file = TrialFile(folder)
    positions, y, metadata = paradigm.get_data(dataset, postprocess_pipeline=FunctionTransformer(file.add))
    return file.take(positions[:, 0, 0]), y, metadata, file if file.path else None
