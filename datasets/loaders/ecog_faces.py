"""ECoGFaces: faces and houses seen by patients with electrodes on the brain, Miller's "faces_basic"."""

from pathlib import Path

import numpy as np

from braindecode_censor.datasets import ecog_mat
from braindecode_censor.datasets._base import _BaseDataset, find_folder, make_metadata
from braindecode_censor.datasets._check import require
from braindecode_censor.datasets._download import fetch, unpack
from braindecode_censor.datasets._raw import make_info, raw_from_signal
from braindecode_censor.datasets.ecog_mat import FACES, TRIAL

SUBJECTS = ["aa", "ap", "ca", "de", "fp", "ha", "ja", "jm", "jt", "mv", "rn", "rr", "wc", "zt"]
VOLTS = 0.0298e-6  # one unit of the amplifier
SFREQ = 1000.0


class ECoGFaces(_BaseDataset):
    """Pictures of faces against pictures of houses, seen by patients with electrodes on the brain.

    Parameters
    ----------
    folder : str, Path or None
        A folder with the unpacked release or with ``faces_basic.zip``, or the path of that zip. None looks in
        ``$MNE_DATASETS_ECOGFACES_PATH``, then in ``$MNE_DATA/ECoGFaces``, and downloads the 613 MB when they
        are not there.
    n_chans : int or None
        Number of electrodes per subject, the first ones of the file; 31 is the paper's number. None selects all,
        and then subjects differ in their channels.
    strict : bool
        Whether to require the known number and length of trials.
    **selection : dict
        ``selected_subjects`` and ``selected_sessions`` of MOABB.

    Notes
    -----
    Read in public loaders and notes, not seen in the files by us: 14 subjects, 150 houses and 150 faces each
    (``rr`` 100 and 100), 400 ms per picture, 1000 Hz, one amplifier unit is 0.0298 microvolt, the glitches of
    ``ha`` (removed). Subjects aa, ha and jt come out about a thousand times larger than the others: z-score.
    Electrodes lie where the patient needed them, so channel k of two subjects has nothing in common; the
    paper's 31 is taken to be a truncation (inferred). Electrode positions are MRI voxels, not a montage:
    :meth:`locations`.

    Subject k is the k-th of ``aa ap ca de fp ha ja jm jt mv rn rr wc zt``. The licence, CC BY-SA 4.0, comes
    with the request to print Miller's ethics statement, which is in the release, in publications.

    References
    ----------
    Miller (2019), A library of human electrocorticographic data and analyses, Nature Human Behaviour 3:1225,
    doi:10.1038/s41562-019-0678-3. Miller et al. (2016), PLoS Comput. Biol. 12:e1004660.
    """

    ACCESS = "automatic download"
    METADATA = make_metadata(
        "erp",
        "ecog",
        31,
        SFREQ,
        ("face", "house"),
        n_subjects=14,
        n_trials=4100,
        doi="10.1038/s41562-019-0678-3",
        license="CC BY-SA 4.0",
        data_url="https://purl.stanford.edu/zk881ps0522",
        publication_year=2019,
        how_to_acknowledge="Miller (2019), Nature Human Behaviour 3:1225; print the ethics statement.",
    )
    METADATA.acquisition.line_freq = 60.0
    METADATA.participants.clinical_population = "epilepsy"
    URL = "https://stacks.stanford.edu/file/druid:zk881ps0522/faces_basic.zip"
    MD5 = "md5:812d92b2be0de466ba6c6683b53ea7f8"

    def __init__(self, folder=None, *, n_chans=31, strict=True, **selection):
        if n_chans is not None and n_chans < 1:
            raise ValueError(f"n_chans={n_chans!r} selects no channel; give a positive number or None.")
        folder = find_folder(folder, "ECoGFaces")
        self.archive = folder if folder.suffix == ".zip" else folder / "faces_basic.zip"
        self.folder = self.archive.parent
        self.n_chans, self.strict = n_chans, strict
        code = "ECoGFaces" if n_chans == 31 else f"ECoGFaces-{n_chans or 'all'}ch"
        subjects, interval = range(1, len(SUBJECTS) + 1), [0, (TRIAL - 1) / SFREQ]
        super().__init__(subjects, ("face", "house"), code, interval, "ecog", "ecog", **selection)

    def is_local(self):
        """Return whether the release, unpacked or not, is in the folder."""
        return self.archive.exists() or any(self.folder.rglob("*_faceshouses.mat"))

    def _find(self, name):
        """Return the one file of that name, unpacked or downloaded first if necessary."""
        paths = sorted(self.folder.rglob(name))
        if not paths:
            if not self.archive.exists():
                if self.is_local():  # the folder holds a selection of subjects
                    raise ValueError(f"{name} is missing in {self.folder}; put it there, or faces_basic.zip.")
                fetch(self.URL, self.MD5, self.folder)
            paths = unpack(self.archive, self.folder, lambda member: Path(member).name == name)
            require(len(paths) == 1, f"{self.archive} holds {len(paths)} files called {name}; expected one.")
        require(len(paths) == 1, f"{name} is there twice: {paths[0]} and {paths[-1]}; remove one of them.")
        return paths[0]

    def _subject_files(self, subject, path=None, force_update=False):
        if path is not None:
            return type(self)(path, n_chans=self.n_chans)._subject_files(subject, None, force_update)
        if force_update:
            self.archive.unlink(missing_ok=True)
            fetch(self.URL, self.MD5, self.folder)
        return [self._find(f"{SUBJECTS[subject - 1]}_faceshouses.mat")]

    def locations(self, subject):
        """Return the positions of a subject's electrodes.

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
        path = self._find(f"{SUBJECTS[subject - 1]}_xslocs.mat")
        locs, elcode = ecog_mat.read_mat(path, ("locs", "elcode"))
        return locs, elcode.ravel().astype(int)

    def _get_single_subject_data(self, subject):
        name = SUBJECTS[subject - 1]
        path = self._subject_files(subject)[0]
        data, stim, srate = ecog_mat.read_recording(path, name)
        require(srate == SFREQ, f"{path}: srate is {srate:g}; expected {SFREQ:g} Hz.")
        onsets, lengths, codes = ecog_mat.find_trials(stim)
        if self.strict:
            ecog_mat.check_trials(path, onsets, lengths, codes, 200 if name == "rr" else 300)
        last = max(onsets, default=-TRIAL)
        if last + TRIAL > len(stim):
            raise ValueError(f"{path} ends within the picture at sample {last}; truncated?")
        n_chans = self.n_chans or len(data)
        if n_chans > len(data):
            raise ValueError(f"{path}: data has {len(data)} channels, fewer than n_chans={n_chans}.")
        info = make_info([f"ECoG{k:03d}" for k in range(1, n_chans + 1)], SFREQ, ["ecog"] * n_chans)
        labels = np.where(codes >= FACES[0], "face", "house")
        return {"0": {"0": raw_from_signal(data[:n_chans] * VOLTS, info, onsets, labels, TRIAL / SFREQ)}}
