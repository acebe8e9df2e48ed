"""ECoGFaces: faces and houses seen by people with electrodes on the brain, Miller's "faces_basic"."""

from pathlib import Path

import numpy as np
from moabb.datasets.metadata.schema import (
    AcquisitionMetadata,
    DatasetMetadata,
    DocumentationMetadata,
    ExperimentMetadata,
    ParticipantMetadata,
)

from braindecode_censor.datasets._archive import unpack
from braindecode_censor.datasets._base import Recording
from braindecode_censor.datasets._download import fetch
from braindecode_censor.datasets._paths import resolve_folder
from braindecode_censor.datasets._raw import make_info, raw_from_signal
from braindecode_censor.datasets.ecog_mat import (
    FACES,
    TRIAL,
    check_trials,
    find_trials,
    read_mat,
    read_recording,
)

SUBJECTS = ["aa", "ap", "ca", "de", "fp", "ha", "ja", "jm", "jt", "mv", "rn", "rr", "wc", "zt"]
URL = "https://stacks.stanford.edu/file/druid:zk881ps0522/faces_basic.zip"
MD5 = "md5:812d92b2be0de466ba6c6683b53ea7f8"
VOLTS = 0.0298e-6  # one unit of the amplifier
SFREQ = 1000.0


class ECoGFaces(Recording):
    """Telling pictures of faces from pictures of houses.

    Parameters
    ----------
    folder : str, Path or None
        A folder with the unpacked release or with ``faces_basic.zip``, or the path of that zip. None looks in
        ``$MNE_DATASETS_ECOGFACES_PATH``, then in ``$MNE_DATA/ECoGFaces``, and downloads the 613 MB when they
        are not there.
    n_chans : int or None
        Keep the first so many electrodes of each subject; 31 is the paper's number. None keeps all, and then
        subjects differ in their channels.
    strict : bool
        Whether to insist on the known number and length of trials.
    **selection : dict
        ``selected_subjects`` and ``selected_sessions`` of MOABB.

    Notes
    -----
    Read in public loaders and notes, not seen in the files by us: 14 subjects, 150 houses and 150 faces each
    (``rr`` 100 and 100), 400 ms per picture, 1000 Hz, one amplifier unit is 0.0298 microvolt, the glitches of
    ``ha`` (removed). Subjects aa, ha and jt come out about a thousand times larger than the others: z-score.
    Electrodes lie wherever the patient needed them, so channel k of two subjects has nothing in common; the
    paper's 31 is taken to be a truncation (inferred). Electrode positions are MRI voxels, not a montage:
    :meth:`locations`.

    Subject k is the k-th of ``aa ap ca de fp ha ja jm jt mv rn rr wc zt``. The licence, CC BY-SA 4.0, comes
    with the request to print Miller's ethics statement, which is in the release, in publications.

    References
    ----------
    Miller (2019), A library of human electrocorticographic data and analyses, Nature Human Behaviour 3:1225,
    doi:10.1038/s41562-019-0678-3. Miller et al. (2016), PLoS Comput. Biol. 12:e1004660.
    """

    METADATA = DatasetMetadata(
        acquisition=AcquisitionMetadata(
            sampling_rate=SFREQ, channel_types={"ecog": 31}, line_freq=60.0, montage=None
        ),
        participants=ParticipantMetadata(
            n_subjects=14, health_status="patients", clinical_population="epilepsy"
        ),
        experiment=ExperimentMetadata(
            paradigm="erp", events={"face": 1, "house": 2}, n_classes=2, trial_duration=TRIAL / SFREQ
        ),
        documentation=DocumentationMetadata(
            doi="10.1038/s41562-019-0678-3",
            license="CC BY-SA 4.0",
            data_url="https://purl.stanford.edu/zk881ps0522",
            investigators=["K. J. Miller"],
            publication_year=2019,
            how_to_acknowledge="Miller (2019), Nature Human Behaviour 3:1225; print the ethics statement.",
        ),
    )

    url, known_hash = URL, MD5  # what is fetched when nothing is there

    def __init__(self, folder=None, *, n_chans=31, strict=True, **selection):
        if n_chans is not None and n_chans < 1:
            raise ValueError(f"n_chans={n_chans!r} keeps nothing; give a positive number, or None for all.")
        folder = resolve_folder(folder, "ECoGFaces")
        self.archive = folder if folder.suffix == ".zip" else folder / "faces_basic.zip"
        self.folder = self.archive.parent
        self.n_chans, self.strict = n_chans, strict
        super().__init__(
            subjects=list(range(1, len(SUBJECTS) + 1)),
            sessions_per_subject=1,
            events={"face": 1, "house": 2},
            code="ECoGFaces" if n_chans == 31 else f"ECoGFaces-{n_chans or 'all'}ch",
            interval=[0, (TRIAL - 1) / SFREQ],
            paradigm="ecog",
            doi=self.METADATA.documentation.doi,
            return_all_modalities={"eeg": False, "ecog": True},
            **selection,
        )

    def is_local(self):
        """Return whether the release, unpacked or not, is in the folder."""
        return self.archive.exists() or any(self.folder.rglob("*_faceshouses.mat"))

    def _find(self, name):
        """Return the one file of that name, unpacked or downloaded first if need be."""
        found = sorted(self.folder.rglob(name))
        if len(found) > 1:
            raise ValueError(f"{name} is there twice: {found[0]} and {found[1]}; keep one of them.")
        if found:
            return found[0]
        if not self.archive.exists():
            if any(self.folder.rglob("*_faceshouses.mat")):  # somebody's own selection of subjects
                raise ValueError(
                    f"ECoGFaces: {name} is missing in {self.folder}; put it there, or faces_basic.zip."
                )
            fetch(self.url, self.known_hash, self.folder)
        found = unpack(self.archive, self.folder, lambda member: Path(member).name == name)
        if len(found) != 1:
            raise ValueError(f"{self.archive} holds {len(found)} files called {name}; expected one.")
        return found[0]

    def _subject_files(self, subject, path=None, force_update=False):
        if path is not None:
            return type(self)(path, n_chans=self.n_chans)._subject_files(subject, None, force_update)
        if force_update:
            self.archive.unlink(missing_ok=True)
            fetch(self.url, self.known_hash, self.folder)
        return [self._find(f"{SUBJECTS[subject - 1]}_faceshouses.mat")]

    def locations(self, subject):
        """Return where a subject's electrodes lie.

        Parameters
        ----------
        subject : int
            Subject number, from 1.

        Returns
        -------
        locs : array of shape (n_chans, 3)
            MRI voxel indices (not millimetres).
        elcode : array of int of shape (n_chans,)
            Area: 1 temporal pole, 2 parahippocampal, 3 inferior temporal, 4 middle temporal, 5 fusiform, 6
            lingual, 7 inferior occipital, 8 cuneus, 9 ventral posterior cingulate, 10 middle occipital, 11
            occipital pole, 12 precuneus, 13 superior occipital, 14 dorsal posterior cingulate, 20 none of
            these.
        """
        found = read_mat(self._find(f"{SUBJECTS[subject - 1]}_xslocs.mat"), ("locs", "elcode"))
        return found["locs"], found["elcode"].ravel().astype(int)

    def _get_single_subject_data(self, subject):
        name = SUBJECTS[subject - 1]
        path = self._subject_files(subject)[0]
        data, stim, srate = read_recording(path, name)
        if srate != SFREQ:
            raise ValueError(f"{path}: srate is {srate:g}; expected {SFREQ:g} Hz.")
        onsets, lengths, codes = find_trials(stim)
        if self.strict:
            check_trials(path, onsets, lengths, codes, 200 if name == "rr" else 300)
        if len(onsets) and onsets[-1] + TRIAL > len(stim):
            raise ValueError(
                f"{path} ends within the picture at sample {onsets[-1]}; expected {TRIAL} more samples."
            )
        n_chans = self.n_chans or len(data)
        if n_chans > len(data):
            raise ValueError(
                f"{path}: data has {len(data)} channels, fewer than n_chans={n_chans}; ask for fewer."
            )
        info = make_info([f"ECoG{k:03d}" for k in range(1, n_chans + 1)], SFREQ, ["ecog"] * n_chans)
        labels = np.where(codes >= FACES[0], "face", "house")
        return {"0": {"0": raw_from_signal(data[:n_chans] * VOLTS, info, onsets, labels, TRIAL / SFREQ)}}
