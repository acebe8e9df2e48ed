"""Anybody's own epochs as a MOABB dataset: a folder with one file per subject."""

import hashlib
import re
import zipfile
from collections import Counter
from pathlib import Path

import mne
import numpy as np
from moabb.datasets.base import is_camel_kebab_case, session_run_pattern

from braindecode_censor.datasets._base import Recording
from braindecode_censor.datasets._plausible import check_subject_number, check_trial_counts
from braindecode_censor.datasets._raw import make_info, raw_from_epochs
from braindecode_censor.datasets.interchange import read_subject, subject_number

_MODALITIES = ("eeg", "ecog", "emg", "seeg")


class EpochsFolder(Recording):
    """A folder of ``subject_XX.npz`` (see :mod:`.interchange`) or ``subject_XX-epo.fif`` files.

    Parameters
    ----------
    folder : str or Path
        The folder. Every ``.npz`` and ``.fif`` file in it must be a subject.
    paradigm : str or None
        MOABB's name for the kind of recording. None: "emg" or "ecog" by the channels, "p300" for the classes
        Target and NonTarget, "errp" for correct and error, else "epochs".
    channels : "common", list of str or None
        None requires the same channels of all subjects, "common" keeps those all have, a list names them.
    where : dict or None
        Keep the subjects whose files have these values, for instance ``{"subset": "PreTrainingDataset"}``.
    code : str or None
        Name under which MOABB stores results, of letters, digits and dashes. MOABB knows a dataset by it alone, so
        give another one when the files change. None makes one of the folder's name and a digest of its content,
        which changes by itself.
    **selection : dict
        ``selected_subjects`` and ``selected_sessions`` of MOABB.

    Examples
    --------
    >>> dataset = EpochsFolder("my_recordings")  # doctest: +SKIP
    >>> X, y, metadata = default_paradigm(dataset).get_data(dataset)  # doctest: +SKIP
    """

    def __init__(self, folder, *, paradigm=None, channels=None, where=None, code=None, **selection):
        self.folder = Path(folder).expanduser()
        self.files = find_subjects(self.folder)
        heads = {subject: read_subject(path, data=False) for subject, path in self.files.items()}
        if where:
            heads = {subject: head for subject, head in heads.items() if _matches(head, where)}
            self.files = {subject: self.files[subject] for subject in heads}
        if not heads:
            raise ValueError(f"where={where!r} leaves none of the subjects of {self.folder}.")
        first = next(iter(heads.values()))
        self.modality = _modality(first)
        self.channels = _common_channels(heads, self.modality, channels)
        self.class_names = _agree_on_labels(heads)
        _agree_on_timing(heads)
        check_trial_counts({subject: len(head.y) for subject, head in heads.items()})
        _refuse_copies(self.files)
        self._start(first, heads, paradigm, self._make_code(channels, where), selection)
        if code is not None:
            # Set afterwards, because MOABB warns when the class is not an abbreviation of the code.
            self.code = _check_code(code)

    def _start(self, first, heads, paradigm, code, selection):
        """Hand MOABB what it wants to know."""
        super().__init__(
            subjects=list(heads),
            sessions_per_subject=min(len(set(head.session)) for head in heads.values()),
            events={name: code for code, name in enumerate(self.class_names, 1)},
            code=code,
            interval=[first.tmin, first.tmin + (first.n_times - 1) / first.sfreq],
            paradigm=paradigm or _paradigm(self.modality, self.class_names),
            return_all_modalities={kind: kind == self.modality for kind in _MODALITIES},
            **selection,
        )

    def _make_code(self, channels, where):
        """Return a code that changes with the content, because MOABB's caches know a dataset by it alone."""
        digest = hashlib.sha256(repr((channels, sorted((where or {}).items()))).encode())
        for subject, path in self.files.items():
            digest.update(repr((subject, fingerprint(path))).encode())
        name = re.sub(r"[^a-z0-9]+", "-", self.folder.name.lower()).strip("-")
        return f"EpochsFolder-{name}-{digest.hexdigest()[:8]}"

    def is_local(self):
        """Return whether the files are still there."""
        return all(path.exists() for path in self.files.values())

    def _subject_files(self, subject, path, force_update):
        return [(self.files if path is None else find_subjects(path))[subject]]

    def _get_single_subject_data(self, subject):
        record = read_subject(self.files[subject])
        info = record.info or make_info(record.ch_names, record.sfreq, record.ch_types)
        others = [n for n, t in zip(record.ch_names, record.ch_types) if t != self.modality]
        picks = [record.ch_names.index(name) for name in [*self.channels, *others]]
        info = mne.pick_info(info, picks)
        info["bads"] = []  # MOABB leaves bad channels out, and then subjects no longer match
        labels = np.array(record.label_names)[record.y]
        sessions = {}
        for session, name in ordered_names(record.session).items():
            here = record.session == session
            runs = ordered_names(record.run[here])
            sessions[name] = {
                runs[run]: self._raw(record, here & (record.run == run), picks, labels, info) for run in runs
            }
        return sessions

    @staticmethod
    def _raw(record, trials, picks, labels, info):
        return raw_from_epochs(record.X[trials][:, picks], labels[trials], info, record.tmin)


def _check_code(code):
    if not isinstance(code, str) or not is_camel_kebab_case(code):
        raise ValueError(f"code={code!r}: use letters, digits and dashes only, such as 'MyStudy-2024'.")
    return code


def find_subjects(folder):
    """Return the subjects' files in a folder."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(
            f"folder={str(folder)!r} does not exist; give the folder that holds subject_XX.npz files."
        )
    files = {}
    for path in sorted([*folder.glob("*.npz"), *folder.glob("*.fif")]):
        subject = subject_number(path)
        if subject is None:
            raise ValueError(
                f"{path} is not called subject_XX.npz or subject_XX-epo.fif; rename it or move it away."
            )
        check_subject_number(subject, path)
        if subject in files:
            raise ValueError(
                f"subject {subject} is there twice: {files[subject]} and {path}; keep one of them."
            )
        files[subject] = path
    if not files:
        raise ValueError(f"{folder} holds neither subject_XX.npz nor subject_XX-epo.fif files.")
    return dict(sorted(files.items()))


def fingerprint(path):
    """Return something short that changes with the content of a file, without reading all of it."""
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            return [(member.filename, member.CRC, member.file_size) for member in archive.infolist()]
    with open(path, "rb") as stream:
        head = stream.read(65536)
        stream.seek(max(0, path.stat().st_size - 65536))
        return hashlib.sha256(head + stream.read()).hexdigest() + str(path.stat().st_size)


def ordered_names(values):
    """Give the sessions or runs of a file the names MOABB wants: a number, then letters."""
    found = list(dict.fromkeys(str(value) for value in values))
    numbers = [re.fullmatch(session_run_pattern(), name) for name in found]
    if all(numbers) and len({int(match[1]) for match in numbers}) == len(found):
        return {name: name for name in found}
    return {
        name: f"{k}{re.sub('[^A-Za-z0-9]', '', name).lstrip('0123456789')}" for k, name in enumerate(found)
    }


def _matches(head, where):
    missing = sorted(set(where) - set(head.extra))
    if missing:
        raise ValueError(
            f"where: {head.path} has no variable {missing[0]!r}; it has {', '.join(sorted(head.extra))}."
        )
    return all(head.extra[key] == value for key, value in where.items())


def _modality(head):
    counts = Counter(kind for kind in head.ch_types if kind in _MODALITIES)
    if not counts:
        raise ValueError(
            f"{head.path}: ch_types has none of {', '.join(_MODALITIES)}; there is nothing to decode."
        )
    return counts.most_common(1)[0][0]


def _paradigm(modality, class_names):
    if modality != "eeg":
        return "emg" if modality == "emg" else "ecog"
    known = {frozenset(("Target", "NonTarget")): "p300", frozenset(("correct", "error")): "errp"}
    return known.get(frozenset(class_names), "epochs")


def _common_channels(heads, modality, channels):
    """Return the names of the channels to decode from, the same for all subjects."""
    each = {
        subject: [name for name, kind in zip(head.ch_names, head.ch_types) if kind == modality]
        for subject, head in heads.items()
    }
    first = next(iter(each.values()))
    if channels is None:
        for subject, names in each.items():
            if set(names) != set(first):
                odd = ", ".join(sorted(set(names) ^ set(first))[:5])
                raise ValueError(
                    f"{heads[subject].path} has other {modality} channels than "
                    f"{next(iter(heads.values())).path} "
                    f"({len(names)} against {len(first)}; {odd}); pass channels='common' to keep the shared "
                    "ones."
                )
        return first
    wanted = [name for name in first if all(name in names for names in each.values())]
    if channels != "common":
        lacking = sorted(set(channels) - set(wanted))
        if lacking:
            raise ValueError(
                f"channels: {', '.join(lacking)} not recorded in all subjects; shared: {wanted}."
            )
        wanted = list(channels)
    if not wanted:
        raise ValueError(f"channels='common' leaves none: no {modality} channel is in all subjects.")
    return wanted


def _agree_on_labels(heads):
    """Return the class names; only .fif files, which list just the classes that occur, may lack some."""
    names = list(dict.fromkeys(name for head in heads.values() for name in head.label_names))
    for head in heads.values():
        if head.path.suffix == ".npz" and set(head.label_names) != set(names):
            raise ValueError(
                f"{head.path}: label_names {head.label_names} differ from the other subjects' {names}; "
                "all files of a folder must list the same classes."
            )
    return names


def _agree_on_timing(heads):
    first = next(iter(heads.values()))
    for head in heads.values():
        for key in ("sfreq", "n_times", "tmin"):
            if abs(getattr(head, key) - getattr(first, key)) > 1e-9:
                raise ValueError(
                    f"{head.path}: {key}={getattr(head, key)}, but {first.path} has {getattr(first, key)}; "
                    "all subjects of a folder must have the same sampling and window."
                )


def _refuse_copies(files):
    """Raise if two subjects hold the same trials, which would leak across a leave-one-subject-out split."""
    seen = {}
    for path in files.values():
        if path.suffix == ".npz":
            key = next(part for part in fingerprint(path) if part[0] == "X.npy")
            if key in seen:
                raise ValueError(
                    f"{seen[key]} and {path} hold the same trials: one person twice? Keep one of them."
                )
            seen[key] = path
