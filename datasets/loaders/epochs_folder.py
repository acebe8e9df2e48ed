"""Epochs of any study as a MOABB dataset: a folder with one file per subject."""

import hashlib
import re
import zipfile
from collections import Counter
from pathlib import Path

import mne
import numpy as np
from moabb.datasets.base import is_camel_kebab_case, session_run_pattern

from braindecode_censor.datasets._base import MODALITIES, _TrialDataset
from braindecode_censor.datasets._check import require, warn
from braindecode_censor.datasets._raw import make_info, raw_from_epochs
from braindecode_censor.datasets.interchange import read_subject

_PARADIGMS = {frozenset(("Target", "NonTarget")): "p300", frozenset(("correct", "error")): "errp"}


class EpochsFolder(_TrialDataset):
    """A folder of ``subject_XX.npz`` (see :mod:`.interchange`) or ``subject_XX-epo.fif`` files.

    Parameters
    ----------
    folder : str or Path
        The folder. Every ``.npz`` and ``.fif`` file in it must be a subject.
    paradigm : str or None
        MOABB's name for the kind of recording. None: "emg" or "ecog" by the channels, "p300" for the classes
        Target and NonTarget, "errp" for correct and error, else "epochs".
    channels : "common", list of str or None
        None requires the same channels of all subjects, "common" selects those all have, a list names them.
    where : dict or None
        Select the subjects whose files have these values, for instance ``{"subset": "PreTrainingDataset"}``.
    code : str or None
        Name under which MOABB stores results, of letters, digits and dashes. MOABB identifies a dataset by it
        alone, so give another one when the files change. None makes one of the folder's name and a digest of its
        content, which changes by itself.
    **selection : dict
        ``selected_subjects`` and ``selected_sessions`` of MOABB.

    Examples
    --------
    >>> dataset = EpochsFolder("my_recordings")  # doctest: +SKIP
    >>> X, y, metadata = default_paradigm(dataset).get_data(dataset)  # doctest: +SKIP
    >>> X, y, subjects = dataset.arrays()  # doctest: +SKIP
    """

    def __init__(self, folder, *, paradigm=None, channels=None, where=None, code=None, **selection):
        self.folder = Path(folder).expanduser()
        files = find_subjects(self.folder)
        heads = {subject: read_subject(path, data=False) for subject, path in files.items()}
        heads = {subject: head for subject, head in heads.items() if _matches(head, where or {})}
        require(heads, f"where={where!r} leaves none of the subjects of {self.folder}.")
        self.files = {subject: files[subject] for subject in heads}
        first = next(iter(heads.values()))
        modality = modality_of(first)
        self.channels = common_channels(heads, modality, channels)
        class_names = list(dict.fromkeys(name for head in heads.values() for name in head.label_names))
        _check_agreement(heads, class_names)
        _check_copies(self.files)
        super().__init__(
            heads,
            class_names,
            self._make_code(channels, where),
            [first.tmin, first.tmin + (first.n_times - 1) / first.sfreq],
            paradigm or _paradigm(modality, class_names),
            modality,
            min(len(set(head.session)) for head in heads.values()),
            **selection,
        )
        if code is not None:
            if not isinstance(code, str) or not is_camel_kebab_case(code):
                raise ValueError(f"code={code!r}: use letters, digits and dashes, as in 'MyStudy-2024'.")
            # Set afterwards, because MOABB warns when the class is not an abbreviation of the code.
            self.code = code

    def _make_code(self, channels, where):
        """Return a code that changes with the content, because MOABB's caches identify a dataset by it alone."""
        digest = hashlib.sha256(repr((channels, sorted((where or {}).items()))).encode())
        for subject, path in self.files.items():
            digest.update(repr((subject, fingerprint(path))).encode())
        name = re.sub(r"[^a-z0-9]+", "-", self.folder.name.lower()).strip("-")
        return f"EpochsFolder-{name}-{digest.hexdigest()[:8]}"

    def is_local(self):
        """Return whether the files are still there."""
        return all(path.exists() for path in self.files.values())

    def trials(self, subject):
        """Return one subject's trials.

        Parameters
        ----------
        subject : int
            Subject number.

        Returns
        -------
        list of tuple
            One ``(X, y)``: X of shape (n_trials, n_chans, n_times) in microvolts, y class numbers, both in the
            order of the file.
        """
        record = read_subject(self._subject_files(subject)[0])
        X = 1e6 * record.X[:, [record.ch_names.index(name) for name in self.channels]]
        return [(X, np.array([self.class_names.index(name) for name in record.label_names])[record.y])]

    def _subject_files(self, subject, path=None, force_update=False):
        return [(self.files if path is None else find_subjects(path))[subject]]

    def _get_single_subject_data(self, subject):
        record = read_subject(self._subject_files(subject)[0])
        info = record.info or make_info(record.ch_names, record.sfreq, record.ch_types)
        auxiliary = [n for n, t in zip(record.ch_names, record.ch_types) if t != self.modality]
        picks = [record.ch_names.index(name) for name in [*self.channels, *auxiliary]]
        info = mne.pick_info(info, picks)
        info["bads"] = []  # MOABB would drop bad channels, and subjects would differ in their channels
        labels = np.array(record.label_names)[record.y]
        sessions = {}
        for session, session_name in ordered_names(record.session).items():
            in_session = record.session == session
            runs = sessions[session_name] = {}
            for run, run_name in ordered_names(record.run[in_session]).items():
                rows = in_session & (record.run == run)
                runs[run_name] = raw_from_epochs(record.X[rows][:, picks], labels[rows], info, record.tmin)
        return sessions


def find_subjects(folder):
    """Return the subjects' files in a folder, a dict of subject number to path."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"folder={str(folder)!r} does not exist; give the folder of subject_XX.npz files.")
    files = {}
    for path in sorted([*folder.glob("*.npz"), *folder.glob("*.fif")]):
        match = re.fullmatch(r"(?:subject|sub)[_-]?(\d+)(?:[_-]epo)?", path.stem)
        require(match, f"{path} is not called subject_XX.npz or subject_XX-epo.fif; rename or move it.")
        subject = int(match[1])
        require(subject < 2**31, f"{path}: subject number {subject} is too large for MOABB.")
        other = files.setdefault(subject, path)
        require(other == path, f"subject {subject} is there twice: {other}, {path}.")
    require(files, f"{folder} holds neither subject_XX.npz nor subject_XX-epo.fif files.")
    return dict(sorted(files.items()))


def fingerprint(path):
    """Return a short value that changes with the content of a file, without reading all of it."""
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            return [(member.filename, member.CRC, member.file_size) for member in archive.infolist()]
    with open(path, "rb") as stream:
        head = stream.read(65536)
        stream.seek(max(0, path.stat().st_size - 65536))
        return hashlib.sha256(head + stream.read()).hexdigest() + str(path.stat().st_size)


def ordered_names(values):
    """Return the names MOABB accepts for the sessions or runs of a file: a number, then letters."""
    names = list(dict.fromkeys(str(value) for value in values))
    numbers = [re.fullmatch(session_run_pattern(), name) for name in names]
    if all(numbers) and len({int(match[1]) for match in numbers}) == len(names):
        return {name: name for name in names}
    words = [re.sub("[^A-Za-z0-9]", "", name).lstrip("0123456789") for name in names]
    return {name: f"{k}{word}" for k, (name, word) in enumerate(zip(names, words))}


def _matches(head, where):
    missing, names = ", ".join(sorted(set(where) - set(head.extra))), ", ".join(sorted(head.extra))
    require(not missing, f"where: {head.path} has no variable {missing!r}; it has {names}.")
    return all(head.extra[key] == value for key, value in where.items())


def modality_of(head):
    """Return the most frequent type of a subject's channels that can be decoded."""
    counts = Counter(ch_type for ch_type in head.ch_types if ch_type in MODALITIES)
    require(counts, f"{head.path}: ch_types has none of {', '.join(MODALITIES)}; there is nothing to decode.")
    return counts.most_common(1)[0][0]


def _paradigm(modality, class_names):
    eeg_paradigm = _PARADIGMS.get(frozenset(class_names), "epochs")
    return {"eeg": eeg_paradigm, "emg": "emg"}.get(modality, "ecog")


def common_channels(heads, modality, channels):
    """Return the names of the channels to decode from, the same for all subjects."""
    names = {}
    for head in heads.values():
        names[head.path] = [name for name, t in zip(head.ch_names, head.ch_types) if t == modality]
    first_path, first = next(iter(names.items()))
    if channels is None:
        for path, ch_names in names.items():
            different = ", ".join(sorted(set(ch_names) ^ set(first))[:5])
            counts = f"{len(ch_names)} against {len(first)}"
            problem = f"{path} has other {modality} channels than {first_path} ({counts}; {different})"
            require(not different, f"{problem}; pass channels='common' to use the shared ones.")
        return first
    shared = [name for name in first if all(name in ch_names for ch_names in names.values())]
    require(shared, f"no {modality} channel is in all subjects: channels='common' leaves none.")
    if channels == "common":
        return shared
    missing = ", ".join(sorted(set(channels) - set(shared)))
    require(not missing, f"channels: {missing} not recorded in all subjects; shared: {shared}.")
    return list(channels)


def _check_agreement(heads, class_names):
    """Raise unless subjects agree in classes, sampling and window; .fif files list occurring classes only."""
    first = next(iter(heads.values()))
    for head in heads.values():
        path, names = head.path, head.label_names
        if path.suffix == ".npz" and set(names) != set(class_names):
            raise ValueError(f"{path}: label_names {names} differ from the other subjects' {class_names}.")
        for key in ("sfreq", "n_times", "tmin"):
            value, expected = getattr(head, key), getattr(first, key)
            if abs(value - expected) > 1e-9:
                raise ValueError(f"{path}: {key}={value}, but {first.path} has {expected}; they must agree.")
    single = ", ".join(str(subject) for subject, head in heads.items() if len(head.y) == 1)
    if single:
        warn(f"The subjects {single} have one trial only: their scores are 0 or 1.")


def _check_copies(files):
    """Raise if two subjects hold the same trials, which would leak across a leave-one-subject-out split."""
    paths = {}
    for path in files.values():
        if path.suffix == ".npz":
            key = next(entry for entry in fingerprint(path) if entry[0] == "X.npy")
            other = paths.setdefault(key, path)
            require(other == path, f"{other} and {path} hold the same trials; remove one of them.")
