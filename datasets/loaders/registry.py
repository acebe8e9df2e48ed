"""Names of all datasets, the paradigm that fits each, and how MOABB comes to know them."""

import inspect

import moabb.datasets
import moabb.paradigms
from moabb.datasets.base import BaseDataset
from moabb.datasets.utils import _init_dataset
from moabb.paradigms.base import BaseParadigm

from braindecode_censor.datasets._check import check_name
from braindecode_censor.datasets.asl_emg import ASLEMG
from braindecode_censor.datasets.ecog_faces import ECoGFaces
from braindecode_censor.datasets.epochs_folder import EpochsFolder
from braindecode_censor.datasets.errp import ErrP
from braindecode_censor.datasets.paradigms import (
    ERP,
    EMGGestures,
    EpochsParadigm,
    ErrorPotentials,
    FacesHouses,
)
from braindecode_censor.datasets.rsvp import RSVP
from braindecode_censor.datasets.simulated import SimulatedSubjects

#: Short name -> dataset.
DATASETS = {
    "simulated": SimulatedSubjects,
    "errp": ErrP,
    "ecogfaces": ECoGFaces,
    "rsvp": RSVP,
    "aslemg": ASLEMG,
    "folder": EpochsFolder,
}
#: Value of ``dataset.paradigm`` -> paradigm.
PARADIGMS = {
    "p300": ERP,
    "errp": ErrorPotentials,
    "ecog": FacesHouses,
    "emg": EMGGestures,
    "epochs": EpochsParadigm,
}
_TRIALS = {"errp": 5440, "ecogfaces": 4100, "aslemg": 990}
_ACCESS = {
    "simulated": "embedded",
    "errp": "Kaggle login",
    "ecogfaces": "automatic download",
    "rsvp": "ask the authors",
    "aslemg": "ask the authors",
    "folder": "your own files",
}


def get_dataset(name, **options):
    """Make a dataset by its short name.

    Parameters
    ----------
    name : str
        A key of ``DATASETS``.
    **options : dict
        Its options.

    Returns
    -------
    moabb.datasets.base.BaseDataset
        The dataset.
    """
    kind = DATASETS[check_name(name, DATASETS, "dataset")]
    try:
        return kind(**options)
    except TypeError as error:  # a name that it does not know
        known = ", ".join(name for name in inspect.signature(kind).parameters if name != "kwargs")
        raise ValueError(f"dataset {name!r} with {options}: {error}. Options: {known}.") from error


def default_paradigm(dataset, **options):
    """Return the paradigm that fits a dataset and hands over its signals as recorded.

    Parameters
    ----------
    dataset : moabb.datasets.base.BaseDataset
        Ours or MOABB's.
    **options : dict
        Options of the paradigm, such as ``resample``, ``fmin`` and ``fmax``.

    Returns
    -------
    moabb.paradigms.base.BaseParadigm
        Trials in microvolts, balanced accuracy and the validation score.
    """
    return PARADIGMS.get(dataset.paradigm, EpochsParadigm)(**options)


def register(*more):
    """Make our datasets and paradigms known to ``moabb.benchmark`` and ``dataset_search``; once is enough.

    Parameters
    ----------
    *more : type or moabb.datasets.base.BaseDataset
        Further datasets or paradigms. MOABB makes a class without arguments when it lists it; a dataset object, such
        as ``EpochsFolder("my_study")``, is listed as it is, so that ``include_datasets=[dataset]`` finds it.

    Notes
    -----
    MOABB has no entry points: it lists the classes in its own modules, so that is where they are put. A name
    MOABB already uses for something else is an error. The class :class:`EpochsFolder` stays out, as MOABB's
    ``LocalBIDSDataset`` does, because both need to be told where the files are.

    Examples
    --------
    >>> dataset = EpochsFolder("my_study", code="MyStudy")  # doctest: +SKIP
    >>> register(dataset)  # doctest: +SKIP
    >>> moabb.benchmark(pipelines, include_datasets=[dataset])  # doctest: +SKIP
    """
    wanted = [(moabb.datasets, cls) for cls in DATASETS.values() if cls is not EpochsFolder]
    wanted += [(moabb.paradigms, cls) for cls in PARADIGMS.values()]
    wanted += [(_moabb_module(thing), _listed_class(thing)) for thing in more]
    for module, cls in wanted:  # all or nothing
        known = getattr(module, cls.__name__, cls)
        if known is not cls and not (hasattr(known, "listed") and hasattr(cls, "listed")):
            raise ValueError(
                f"{module.__name__} already has another {cls.__name__}: {known!r}. Nothing was registered; "
                "remove or rename that one first."
            )
    for module, cls in wanted:
        setattr(module, cls.__name__, cls)
    _init_dataset()


def _listed_class(thing):
    """Return what MOABB is to call without arguments: the class itself, or one that answers with the object."""
    if isinstance(thing, type):
        return thing
    body = {"listed": thing, "__new__": lambda cls: thing}
    return type(thing.code.replace("-", "_"), (type(thing),), body)


def _moabb_module(thing):
    if isinstance(thing, BaseDataset) or (isinstance(thing, type) and issubclass(thing, BaseDataset)):
        return moabb.datasets
    if isinstance(thing, type) and issubclass(thing, BaseParadigm):
        return moabb.paradigms
    raise ValueError(
        f"register({thing!r}): pass classes derived from MOABB's BaseDataset or BaseParadigm, or dataset objects."
    )


def describe():
    """Return one row per dataset, for the command ``autotransfer datasets``.

    Returns
    -------
    list of dict
        Name, modality, subjects, trials, channels, licence, access, and whether it is on this disk.
    """
    return [_row(name, cls) for name, cls in DATASETS.items()]


def _row(name, cls):
    row = {"name": name, "modality": "any", "subjects": None, "trials": None, "channels": None}
    row |= {"licence": "yours", "access": _ACCESS[name], "on_disk": None}
    if name == "folder":
        return row
    dataset = cls()
    row |= {"subjects": len(dataset.subject_list), "on_disk": dataset.is_local(), "trials": _TRIALS.get(name)}
    if name == "simulated":
        design = dataset.design
        row |= {
            "modality": "eeg, emg",
            "trials": design.n_subjects * design.n_trials,
            "licence": "BSD-3-Clause",
        }
        row["channels"] = design.n_chans
    else:
        types = dataset.METADATA.acquisition.channel_types
        row |= {"modality": max(types, key=types.get), "channels": max(types.values())}
        row["licence"] = dataset.METADATA.documentation.license
    return row
