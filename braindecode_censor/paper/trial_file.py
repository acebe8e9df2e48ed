"""Trials as MOABB cuts them, run by run: in memory while they are few, in a file of the folder of results beyond."""

import numpy as np
from sklearn.preprocessing import FunctionTransformer

from braindecode_censor.storage.files import clear_errors, open_scratch
from braindecode_censor.trials import stored

__all__ = ["Spool", "read_trials"]


class Spool:
    """Takes the signals of one run after the other and returns their positions instead."""

    def __init__(self, folder):
        self.folder, self.file = folder, None
        self.blocks, self.count, self.size = [], 0, 0
        self.shape = self.dtype = None

    def add(self, signals):
        """Keep the trials of a run."""
        if self.shape is None:
            self.shape, self.dtype = signals.shape[1:], signals.dtype
        if signals.shape[1:] != self.shape:
            raise ValueError(
                f"some trials have {signals.shape[1:]} channels and samples and others {self.shape}: choose channels "
                "that everybody has, and resample, in the paradigm."
            )
        places = np.arange(self.count, self.count + len(signals))
        self.count, self.size = self.count + len(signals), self.size + signals.nbytes
        self.blocks.append(signals)
        if self.folder is not None and self.size > stored.LARGEST_COPY:
            self._write()
        return places[:, None, None]

    def _write(self):
        self.file = open_scratch(self.folder) if self.file is None else self.file
        with clear_errors(self.folder):
            for block in self.blocks:
                self.file.write(np.ascontiguousarray(block, self.dtype))
            self.file.flush()
        self.blocks = []

    def take(self, places):
        """Return the trials at some positions."""
        if self.file is None:
            X, self.blocks = np.concatenate(self.blocks), []
            return X if np.array_equal(places, np.arange(self.count)) else X[places]
        source = np.memmap(self.file.name, self.dtype, "r", shape=(self.count, *self.shape))
        return stored.StoredSignals(source, places)


def read_trials(dataset, paradigm, folder=None):
    """Read all trials of a dataset, without holding more of them in memory than one person's if they are many."""
    if len(paradigm.filters) > 1:  # MOABB stacks the bands of several passes, each of all people
        return *paradigm.get_data(dataset), None
    spool = Spool(folder)
    places, y, metadata = paradigm.get_data(dataset, postprocess_pipeline=FunctionTransformer(spool.add))
    return spool.take(places[:, 0, 0]), y, metadata, spool.file
