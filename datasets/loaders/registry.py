"""Names of all datasets, the paradigm that fits each, and their registration with MOABB."""

import inspect

import moabb.datasets
import moabb.paradigms
from moabb.datasets.base import BaseDataset
from moabb.datasets.utils import _init_dataset
from moabb.paradigms.base import BaseParadigm

from braindecode_censor.datasets import paradigms
from braindecode_censor.datasets._check import check_name, require
from braindecode_censor.datasets.asl_emg import ASLEMG
from braindecode_censor.datasets.ecog_faces import ECoGFaces
from braindecode_censor.datasets.epochs_folder import EpochsFolder
from braindecode_censor.datasets.errp import ErrP
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
    "p300": paradigms.ERP,
    "errp": paradigms.ErrorPotentials,
    "ecog": paradigms.FacesHouses,
    "emg": paradigms.EMGGestures,
    "epochs": paradigms.EpochsParadigm,
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
    cls = DATASETS[check_name(name, DATASETS, "dataset")]
    try:
        return cls(**options)
    except TypeError as error:  # an unknown or missing option
        valid_names = ", ".join(inspect.signature(cls).parameters)
        raise ValueError(f"dataset {name!r} with {options}: {error}. Options: {valid_names}.") from error


def default_paradigm(dataset, **options):
    """Return the paradigm that fits a dataset and returns its signals as recorded.

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
    return PARADIGMS.get(dataset.paradigm, paradigms.EpochsParadigm)(**options)


def register(*more):
    """Register our datasets and paradigms with ``moabb.benchmark`` and ``dataset_search``; once is enough.

    Parameters
    ----------
    *more : type or moabb.datasets.base.BaseDataset
        Further datasets or paradigms. MOABB calls a class without arguments to list it; a dataset object, such
        as ``EpochsFolder("my_study")``, is listed as it is, so that ``include_datasets=[dataset]`` finds it.

    Notes
    -----
    MOABB has no entry points: it lists the classes in its modules, so this function adds them there. A name that
    MOABB uses for another class is an error. The class :class:`EpochsFolder` is not added, as MOABB's
    ``LocalBIDSDataset`` is not, because both need the folder of the files.

    Examples
    --------
    >>> dataset = EpochsFolder("my_study", code="MyStudy")  # doctest: +SKIP
    >>> register(dataset)  # doctest: +SKIP
    >>> moabb.benchmark(pipelines, include_datasets=[dataset])  # doctest: +SKIP
    """
    entries = [(moabb.datasets, cls) for cls in DATASETS.values() if cls is not EpochsFolder]
    entries += [(moabb.paradigms, cls) for cls in PARADIGMS.values()]
    entries += [_entry(item) for item in more]
    for module, cls in entries:  # all or nothing
        present = getattr(module, cls.__name__, cls)
        require(
            present is cls or (hasattr(present, "listed") and hasattr(cls, "listed")),
            f"{module.__name__} already has another {cls.__name__}: {present!r}. Nothing was registered; remove or "
            "rename that one first.",
        )
    for module, cls in entries:
        setattr(module, cls.__name__, cls)
    _init_dataset()


def _entry(item):
    """Return MOABB's module for an item, and the class that MOABB is to call without arguments."""
    if isinstance(item, BaseDataset):
        body = {"listed": item, "__new__": lambda cls: item}
        return moabb.datasets, type(item.code.replace("-", "_"), (type(item),), body)
    for module, base in ((moabb.datasets, BaseDataset), (moabb.paradigms, BaseParadigm)):
        if isinstance(item, type) and issubclass(item, base):
            return module, item
    raise ValueError(f"register({item!r}): pass a dataset or a class of MOABB's BaseDataset or BaseParadigm.")


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
    row |= {"licence": "yours", "access": "your own files", "on_disk": None}
    if cls is EpochsFolder:
        return row
    dataset = cls()
    return row | {"subjects": len(dataset.subject_list)} | getattr(dataset, "_summary", {})
