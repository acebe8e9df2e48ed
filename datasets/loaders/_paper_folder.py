"""Recordings without a public release: a folder in the interchange format, with known numbers."""

from braindecode_censor.datasets._paths import resolve_folder
from braindecode_censor.datasets.epochs_folder import EpochsFolder


class PaperFolder(EpochsFolder):
    """What :class:`RSVP` and :class:`ASLEMG` share; subclasses set the class attributes."""

    n_subjects, n_chans, modality, kind = 10, 16, "eeg", "p300"
    class_names, fixed_names = (), True
    sfreq, n_times = 256.0, 128
    about = ""

    def __init__(self, folder=None, **selection):
        self.name = type(self).__name__
        self.folder = resolve_folder(folder, self.name)
        self.problem = None
        try:
            if not self.is_local():
                raise ValueError(self._explain())
            super().__init__(self.folder, paradigm=self.kind, code=self.name, **selection)
            self._check_numbers()
        except ValueError as problem:
            if folder is not None:
                raise
            # MOABB makes every dataset with no arguments to list it: complain when it is loaded
            self.problem, self.files = problem, {}
            for name in ("modality", "class_names"):
                self.__dict__.pop(name, None)
            self._start_without_files(selection)

    def _start_without_files(self, selection):
        """Describe the recording as the paper does, so that MOABB can list it before it is there."""
        super(EpochsFolder, self).__init__(
            subjects=list(range(1, self.n_subjects + 1)),
            sessions_per_subject=1,
            events={name: code for code, name in enumerate(self.class_names, 1)},
            code=self.name,
            interval=[0, (self.n_times - 1) / self.sfreq],
            paradigm=self.kind,
            return_all_modalities={self.modality: True, "eeg": self.modality == "eeg"},
            **selection,
        )

    def _check_numbers(self):
        expected, found = type(self), self
        for key, want, got in (
            ("n_chans", expected.n_chans, len(found.channels)),
            ("modality", expected.modality, found.modality),
            ("number of classes", len(expected.class_names), len(found.class_names)),
            ("classes", *(sorted(c.class_names) if self.fixed_names else [] for c in (expected, found))),
            ("subjects", list(range(1, expected.n_subjects + 1)), list(found.files)),
        ):
            if want != got:
                raise ValueError(
                    f"{self.folder} is not {self.name}: {key} should be {want}, found {got}. "
                    "Use EpochsFolder for another recording."
                )

    def _explain(self):
        last = f"subject_{self.n_subjects:02d}.npz"
        return (
            f"{self.name}: no subject_XX.npz files in {self.folder}. {self.about} Write the trials as "
            "subject_01.npz "
            f"to {last} with braindecode_censor.datasets.save_subject (keys X, y, label_names, sfreq, "
            "ch_names, "
            f"ch_types) into that folder, or set MNE_DATASETS_{self.name.upper()}_PATH or folder= to where "
            "they are."
        )

    def is_local(self):
        """Return whether the folder holds subject files."""
        return self.folder.is_dir() and any(self.folder.glob("subject_*.*"))

    def _subject_files(self, subject, path, force_update):
        if path is not None:
            return type(self)(path)._subject_files(subject, None, force_update)
        if self.problem is not None:
            raise self.problem
        return [self.files[subject]]

    def _get_single_subject_data(self, subject):
        self._subject_files(subject, None, False)
        return super()._get_single_subject_data(subject)
