"""ErrP: error potentials in a P300 speller, EEG, the Kaggle "BCI Challenge @ NER 2015"."""

from braindecode_censor.datasets import errp_csv
from braindecode_censor.datasets._base import _BaseDataset, find_folder, make_metadata
from braindecode_censor.datasets._check import check_name, require
from braindecode_censor.datasets._download import unpack
from braindecode_censor.datasets._raw import make_info, raw_from_signal
from braindecode_censor.datasets.errp_csv import EEG_COLUMNS, SFREQ

TRAIN = [2, 6, 7, 11, 12, 13, 14, 16, 17, 18, 20, 21, 22, 23, 24, 26]
TEST = [1, 3, 4, 5, 8, 9, 10, 15, 19, 25]
FEEDBACKS = (60, 60, 60, 60, 100)  # per session
_DURATION = 1.3


class ErrP(_BaseDataset):
    """Feedback after the right letter of a speller against feedback after a wrong one.

    Parameters
    ----------
    folder : str, Path or None
        Folder with the files of the challenge: the downloaded ``inria-bci-challenge.zip``, its ``train.zip``,
        or the unpacked CSV files, in any sub-folder. None looks in ``$MNE_DATASETS_ERRP_PATH``, then in
        ``$MNE_DATA/ErrP``.
    split : {"train", "test", "all"}
        The 16 training subjects, which are the paper's, the 10 test subjects, or both. The test subjects need
        ``true_labels.csv``, with the columns of TrainLabels.csv.
    **selection : dict
        ``selected_subjects`` and ``selected_sessions`` of MOABB.

    Notes
    -----
    Seen in files of the release: subjects and their numbers, five sessions of 60, 60, 60, 60 and 100
    feedbacks, the labels (1 correct, 3850; 0 error, 1590), the channel order, and the header's "P08" for PO8,
    which is renamed here. Read in several public loaders: 200 Hz (the paper's 600 Hz is the rate of
    acquisition), microvolts. Electrode positions are those of the standard 10-05 system, not measured.

    The interval between feedbacks of session 5 reveals the speller's decision; single epochs do not carry it.
    The competition's rules allow no redistribution, so there is no automatic download.

    References
    ----------
    Perrin, Maby, Daligault, Bertrand, Mattout (2012), Objective and subjective evaluation of online error
    correction during P300-based spelling, Adv. Human-Computer Interaction 578295, doi:10.1155/2012/578295.
    """

    ACCESS = "Kaggle login"
    METADATA = make_metadata(
        "erp",
        "eeg",
        56,
        SFREQ,
        ("error", "correct"),
        n_subjects=16,
        n_trials=5440,
        doi="10.1155/2012/578295",
        license="Kaggle competition rules (no redistribution)",
        data_url="https://www.kaggle.com/c/inria-bci-challenge",
        publication_year=2012,
        how_to_acknowledge="Perrin et al. (2012), Adv. Human-Computer Interaction 578295.",
    )

    def __init__(self, folder=None, *, split="train", **selection):
        subjects = {"train": TRAIN, "test": TEST, "all": sorted(TRAIN + TEST)}
        self.split = check_name(split, subjects, "split")
        self.folder = find_folder(folder, "ErrP")
        code = "ErrP" if split == "train" else f"ErrP-{split}"  # other subjects, other results
        names, interval = ("error", "correct"), [0, _DURATION - 1 / SFREQ]
        super().__init__(subjects[split], names, code, interval, "errp", n_sessions=5, **selection)

    def is_local(self):
        """Return whether recordings, unpacked or not, are in the folder."""
        return any(any(self.folder.rglob(name)) for name in ("Data_S*_Sess*.csv", "train.zip", "inria-*.zip"))

    def _files(self):
        """Return the recordings of the folder, unpacked first if they are still in the archives."""
        if not errp_csv.find_recordings(self.folder):
            for name in ("inria-bci-challenge.zip", "train.zip", "test.zip"):
                if (self.folder / name).exists():
                    unpack(self.folder / name, self.folder)
        files = errp_csv.find_recordings(self.folder)
        require(
            files,
            f"No Data_SXX_SessYY.csv in {self.folder}. Accept the rules at {self.METADATA.documentation.data_url}, "
            f"then run\n    kaggle competitions download -c inria-bci-challenge -p {self.folder}\n"
            "or set folder= or MNE_DATASETS_ERRP_PATH to where the files are.",
        )
        return files

    def _subject_files(self, subject, path=None, force_update=False):
        if path is not None:
            return type(self)(path, split=self.split)._subject_files(subject)
        files = self._files()
        missing = [session for session in range(1, 6) if (subject, session) not in files]
        names = ", ".join(f"Data_S{subject:02d}_Sess{session:02d}.csv" for session in missing)
        require(not missing, f"ErrP: {names} missing in {self.folder}; expected five sessions.")
        return [files[subject, session] for session in range(1, 6)]

    def _labels(self, subject):
        """Return the labels of a subject, one array per session."""
        name = "TrainLabels.csv" if subject in TRAIN else "true_labels.csv"
        paths = sorted(self.folder.rglob(name))
        require(len(paths) == 1, f"ErrP: expected one {name} in {self.folder}, found {len(paths)}.")
        labels = errp_csv.read_labels(paths[0])
        for session, expected in enumerate(FEEDBACKS, 1):
            count = len(labels.get((subject, session), ()))
            if count != expected:
                name = f"S{subject:02d}_Sess{session:02d}"
                raise ValueError(f"{paths[0]} has {count} labels for {name}; expected {expected}.")
        return [labels[subject, session] for session in range(1, 6)]

    def _get_single_subject_data(self, subject):
        paths, labels = self._subject_files(subject), self._labels(subject)
        return {str(k): {"0": _raw(path, y)} for k, (path, y) in enumerate(zip(paths, labels))}


def _raw(path, y):
    """Return one session as a Raw."""
    data, onsets = errp_csv.read_recording(path)
    if len(onsets) != len(y):
        raise ValueError(f"{path}: FeedBackEvent marks {len(onsets)} feedbacks, the labels {len(y)}.")
    n_after, n_times = data.shape[1] - onsets[-1], round(_DURATION * SFREQ)
    if n_after < n_times:
        raise ValueError(f"{path} ends {n_after} samples after the last feedback; {n_times} needed.")
    names = [name.replace("P08", "PO8") for name in EEG_COLUMNS]
    info = make_info([*names, "EOG"], SFREQ, ["eeg"] * len(names) + ["eog"])
    data *= 1e-6
    return raw_from_signal(data, info, onsets, ["correct" if label else "error" for label in y], _DURATION)
