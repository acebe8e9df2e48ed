"""MOABB datasets and paradigms, importable as :mod:`braindecode_censor.datasets`."""

from braindecode_censor.datasets.asl_emg import ASLEMG
from braindecode_censor.datasets.ecog_faces import ECoGFaces
from braindecode_censor.datasets.epochs_folder import EpochsFolder
from braindecode_censor.datasets.errp import ErrP
from braindecode_censor.datasets.interchange import read_subject, save_subject
from braindecode_censor.datasets.paradigms import (
    ERP,
    EMGGestures,
    EpochsParadigm,
    ErrorPotentials,
    FacesHouses,
    paper_scorer,
    valid_score,
    with_paper_scores,
)
from braindecode_censor.datasets.registry import (
    DATASETS,
    PARADIGMS,
    default_paradigm,
    describe,
    get_dataset,
    register,
)
from braindecode_censor.datasets.rsvp import RSVP
from braindecode_censor.datasets.simulated import SimulatedSubjects

__all__ = [
    "ASLEMG",
    "DATASETS",
    "ERP",
    "PARADIGMS",
    "RSVP",
    "ECoGFaces",
    "EMGGestures",
    "EpochsFolder",
    "EpochsParadigm",
    "ErrP",
    "ErrorPotentials",
    "FacesHouses",
    "SimulatedSubjects",
    "default_paradigm",
    "describe",
    "get_dataset",
    "paper_scorer",
    "read_subject",
    "register",
    "save_subject",
    "valid_score",
    "with_paper_scores",
]
