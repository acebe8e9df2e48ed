"""RSVP: rapid serial visual presentation, EEG, ten subjects."""

from moabb.datasets.metadata.schema import (
    AcquisitionMetadata,
    DatasetMetadata,
    DocumentationMetadata,
    ExperimentMetadata,
    ParticipantMetadata,
)

from braindecode_censor.datasets._paper_folder import PaperFolder


class RSVP(PaperFolder):
    """Calibration of the RSVP Keyboard speller: telling the target letter from the others.

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

    n_subjects, n_chans, modality, kind = 10, 16, "eeg", "p300"
    class_names = ("NonTarget", "Target")
    sfreq, n_times = 256.0, 128
    about = (
        "This recording has no public release; ask its authors (Orhan et al. 2012, Northeastern University)."
    )
    METADATA = DatasetMetadata(
        acquisition=AcquisitionMetadata(sampling_rate=256.0, channel_types={"eeg": 16}, sensor_type="dry"),
        participants=ParticipantMetadata(n_subjects=10),
        experiment=ExperimentMetadata(
            paradigm="p300", events={"NonTarget": 1, "Target": 2}, n_classes=2, trial_duration=0.5
        ),
        documentation=DocumentationMetadata(
            license="not released",
            investigators=["U. Orhan", "K. E. Hild", "D. Erdogmus", "B. Roark", "B. Oken", "M. Fried-Oken"],
            publication_year=2012,
            how_to_acknowledge="Orhan et al. (2012), RSVP Keyboard: an EEG based typing interface, ICASSP.",
        ),
    )
