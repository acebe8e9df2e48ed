"""Datasets without a public release: a folder in the interchange format, with the paper's numbers."""

from braindecode_censor.datasets._base import _BaseDataset, find_folder
from braindecode_censor.datasets._check import require
from braindecode_censor.datasets.epochs_folder import EpochsFolder


class _UnreleasedDataset(EpochsFolder):
    """Common part of :class:`RSVP` and :class:`ASLEMG`; subclasses set the class attributes and METADATA."""

    ACCESS = "ask the authors"
    PARADIGM, N_TIMES = "p300", 128
    FIXED_NAMES = True  # whether the class names are known
    AUTHORS = ""

    def __init__(self, folder=None, **selection):
        name, self.problem = type(self).__name__, None
        self.folder = find_folder(folder, name)
        try:
            require(self.is_local(), self._explain(name))
            super().__init__(self.folder, paradigm=self.PARADIGM, code=name, **selection)
            self._check_numbers(name)
        except ValueError as problem:
            if folder is not None:
                raise
            # MOABB makes every dataset without arguments to list it, so the error waits for the first use.
            self.problem, facts = problem, self.METADATA
            (modality,) = facts.acquisition.channel_types
            subjects = range(1, facts.participants.n_subjects + 1)
            interval = [0, (self.N_TIMES - 1) / facts.acquisition.sampling_rate]
            args = subjects, facts.experiment.events, name, interval, self.PARADIGM, modality
            _BaseDataset.__init__(self, *args, **selection)

    def _check_numbers(self, name):
        """Raise if the folder holds another dataset."""
        facts = self.METADATA
        ((modality, n_chans),) = facts.acquisition.channel_types.items()
        names, n_subjects = sorted(facts.experiment.events), facts.participants.n_subjects
        for key, expected, actual in (
            ("n_chans", n_chans, len(self.channels)),
            ("modality", modality, self.modality),
            ("number of classes", len(names), len(self.class_names)),
            ("classes", names, sorted(self.class_names) if self.FIXED_NAMES else names),
            ("subjects", list(range(1, n_subjects + 1)), list(self.files)),
        ):
            if expected != actual:
                problem = f"{key} should be {expected}, found {actual}"
                raise ValueError(f"{self.folder} is not {name}: {problem}. Use EpochsFolder for it.")

    def _explain(self, name):
        return (
            f"{name}: no subject_XX.npz files in {self.folder}. This dataset has no public release; ask its authors "
            f"({self.AUTHORS}). Write the trials as subject_01.npz, subject_02.npz, ... with "
            "braindecode_censor.datasets.save_subject into that folder, or set "
            f"MNE_DATASETS_{name.upper()}_PATH or folder= to where they are."
        )

    def is_local(self):
        """Return whether the folder holds subject files."""
        return any(self.folder.glob("subject_*.*"))

    def _subject_files(self, subject, path=None, force_update=False):
        if path is not None:
            return type(self)(path)._subject_files(subject)
        if self.problem is not None:
            raise self.problem
        return super()._subject_files(subject)
