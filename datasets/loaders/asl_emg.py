"""ASLEMG: gestures of American Sign Language, surface EMG, ten subjects."""

from braindecode_censor.datasets._base import make_metadata
from braindecode_censor.datasets._unreleased import _UnreleasedDataset


class ASLEMG(_UnreleasedDataset):
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

    PARADIGM, N_TIMES, FIXED_NAMES = "emg", 1000, False
    AUTHORS = "Gunay et al. 2019, Northeastern University"
    METADATA = make_metadata(
        "emg",
        "emg",
        16,
        1000.0,
        [f"gesture{k:02d}" for k in range(1, 34)],
        n_subjects=10,
        n_trials=990,
        license="not released",
        publication_year=2019,
        how_to_acknowledge="Gunay et al. (2019), Transfer learning using low-dimensional subspaces for EMG-based "
        "classification of hand posture, IEEE/EMBS NER.",
    )
