"""What all our datasets share towards MOABB."""

from abc import abstractmethod

from moabb.datasets.base import BaseDataset


class Recording(BaseDataset):
    """A MOABB dataset that knows its own metadata and whether its files are here; see the subclasses."""

    METADATA = None

    @property
    def metadata(self):
        """What is published about the recording, or None."""
        return self.METADATA

    @abstractmethod
    def is_local(self):
        """Return whether the data can be had without a download."""

    def data_path(self, subject, path=None, force_update=False, update_path=None, verbose=None):
        """Return the files of one subject; fetch, unpack or explain how to provide what is missing."""
        return [str(file) for file in self._subject_files(subject, path, force_update)]

    @abstractmethod
    def _subject_files(self, subject, path, force_update):
        """Return what :meth:`data_path` promises."""
