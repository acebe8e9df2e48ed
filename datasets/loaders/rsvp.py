"""RSVP: rapid serial visual presentation, EEG, ten subjects."""

from braindecode_censor.datasets._base import make_metadata
from braindecode_censor.datasets._unreleased import _UnreleasedDataset


class RSVP(_UnreleasedDataset):
    """Calibration of the RSVP Keyboard speller: target letter against the other letters.

    Parameters
    ----------
    folder : str, Path or None
        Folder with ``subject_01.npz`` … ``subject_10.npz`` in the interchange format; None looks in
        ``$MNE_DATASETS_RSVP_PATH``, then in ``$MNE_DATA/RSVP``.
    **selection : dict
        ``selected_subjects`` and ``selected_sessions`` of MOABB.

    Notes
    -----
    From the paper: 10 subjects, 16 EEG channels with dry electrodes, windows of 500 ms after each letter, 28
    symbols, Target against NonTarget. Believed, not verified: 256 Hz (g.USBamp) [from memory]; that these are
    the Northeastern RSVP Keyboard data of Orhan et al. 2012 [inferred from the description]. There is no
    release whose file format is known, hence the interchange format.

    References
    ----------
    Orhan, Hild, Erdogmus, Roark, Oken, Fried-Oken (2012), RSVP Keyboard: an EEG based typing interface,
    ICASSP.
    """

    AUTHORS = "Orhan et al. 2012, Northeastern University"
    METADATA = make_metadata(
        "p300",
        "eeg",
        16,
        256.0,
        ("NonTarget", "Target"),
        n_subjects=10,
        n_trials=None,
        license="not released",
        publication_year=2012,
        how_to_acknowledge="Orhan et al. (2012), RSVP Keyboard: an EEG based typing interface, ICASSP.",
    )
