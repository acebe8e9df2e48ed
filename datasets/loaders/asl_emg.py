"""ASLEMG: gestures of American Sign Language, surface EMG, ten subjects."""

from moabb.datasets.metadata.schema import (
    AcquisitionMetadata,
    DatasetMetadata,
    DocumentationMetadata,
    ExperimentMetadata,
    ParticipantMetadata,
)

from braindecode_censor.datasets._paper_folder import PaperFolder

_GESTURES = tuple(f"gesture{k:02d}" for k in range(1, 34))


class ASLEMG(PaperFolder):
    """33 gestures of the right hand, each made three times, from 16 muscles.

    Parameters
    ----------
    folder : str, Path or None
        Folder with ``subject_01.npz`` … ``subject_10.npz`` in the interchange format (``ch_types`` all "emg",
        33 ``label_names``); None looks in ``$MNE_DATASETS_ASLEMG_PATH``, then in
        ``$MNE_DATA/ASLEMG``.
    **selection : dict
        ``selected_subjects`` and ``selected_sessions`` of MOABB.

    Notes
    -----
    From the paper: 10 subjects, 33 gestures x 3, 16 muscles of hand and arm, 1 kHz. The length of the window
    is not stated there; it is taken from the files. Believed, not verified: that these are the data of Gunay
    et al. 2019 [from memory]. No public download or file format is known, hence the interchange format.

    References
    ----------
    Gunay, Yarossi, Brooks, Tunik, Erdogmus (2019), Transfer learning using low-dimensional subspaces for
    EMG-based classification of hand posture, IEEE/EMBS Conference on Neural Engineering.
    """

    n_subjects, n_chans, modality, kind = 10, 16, "emg", "emg"
    class_names, fixed_names = _GESTURES, False
    sfreq, n_times = 1000.0, 1000
    about = (
        "This recording has no public release; ask its authors (Gunay et al. 2019, Northeastern University)."
    )
    METADATA = DatasetMetadata(
        acquisition=AcquisitionMetadata(sampling_rate=1000.0, channel_types={"emg": 16}, montage=None),
        participants=ParticipantMetadata(n_subjects=10),
        experiment=ExperimentMetadata(
            paradigm="emg", events={name: k for k, name in enumerate(_GESTURES, 1)}, n_classes=33
        ),
        documentation=DocumentationMetadata(
            license="not released",
            investigators=["S. Y. Gunay", "M. Yarossi", "D. H. Brooks", "E. Tunik", "D. Erdogmus"],
            publication_year=2019,
            how_to_acknowledge="Gunay et al. (2019), Transfer learning using low-dimensional subspaces for "
            "EMG-based classification of hand posture, IEEE/EMBS NER.",
        ),
    )
