"""MOABB datasets and paradigms, importable as :mod:`braindecode_censor.datasets`."""

from importlib import import_module

_MODULES = {
    "asl_emg": "ASLEMG",
    "ecog_faces": "ECoGFaces",
    "epochs_folder": "EpochsFolder",
    "errp": "ErrP",
    "interchange": "read_subject save_subject",
    "paradigms": "ERP EMGGestures EpochsParadigm ErrorPotentials FacesHouses paper_scorer valid_score "
    "with_paper_scores",
    "registry": "DATASETS PARADIGMS default_paradigm describe get_dataset register",
    "rsvp": "RSVP",
    "simulated": "SimulatedSubjects",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name):
    """Import a name when it is first used, because MOABB takes seconds to import."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__():
    return __all__
