"""YAML pipelines for ``moabb.benchmark``: the paper's methods and modes, and one per kind of target data."""

from pathlib import Path

import yaml

import braindecode_censor
from braindecode_censor.paper.grid import METHODS, QUICK_GRID
from braindecode_censor.penalties.modes import MODES
from braindecode_censor.penalties.options import estimator_arguments
from braindecode_censor.training.arguments import PAPER

__all__ = ["PARADIGM_NAMES", "pipeline_texts", "pipelines_folder", "write_pipelines"]

#: The first two are MOABB's own. MOABB finds the other four after ``braindecode_censor.register()``.
PARADIGM_NAMES = ("P300", "MotorImagery", "ERP", "ErrorPotentials", "FacesHouses", "EMGGestures")
_PAPER = "Smedemark-Margulies et al. (2022), AutoTransfer, https://arxiv.org/abs/2112.09796"
_EEGNET = "Lawhern et al. (2018), EEGNet, https://doi.org/10.1088/1741-2552/aace8c"
_TWO_SAMPLE = "Gretton et al. (2012), A kernel two-sample test, https://jmlr.org/papers/v13/gretton12a.html"
# Method -> (name in print, citation).
_METHODS = {
    "adv": (
        "Adv",
        "Özdenizci et al. (2020), adversarial inference for EEG, https://doi.org/10.1109/ACCESS.2020.2971600",
    ),
    "mige": (
        "MIGE",
        "Wen et al. (2020), Mutual information gradient estimation, https://arxiv.org/abs/2005.01123",
    ),
    "mmd": ("MMD", _TWO_SAMPLE),
    "pairmmd": ("PairMMD", _TWO_SAMPLE),
    "began": ("BEGAN", "Berthelot et al. (2017), BEGAN, https://arxiv.org/abs/1703.10717"),
}
_RIEMANN = [
    "He and Wu (2020), Euclidean alignment, https://doi.org/10.1109/TBME.2019.2913914",
    "Barachant et al. (2013), Riemannian kernel, https://doi.org/10.1016/j.neucom.2012.12.039",
]
# The training recipe for new subjects. It is written out, so that a file states all that it does.
_RECIPE = {"augment": "standard", "schedule": "one_cycle", "lr": 0.003}
_RECIPE |= {"max_steps": 1500, "keep": "last"}
_CENSORED = {"penalty": "mmd", "censoring": "conditional", "weight": 0.3}
# File -> (name, normalisation, options of the penalty). The target data decide what is made equal between subjects.
# MOABB's mode TRAIN gives none, so only statistics of the population are left. Labels also settle the rotation that
# Euclidean alignment leaves open, because the last layer is fitted again.
_TRANSFER = {
    "transfer_none": ("population-MMD (EEGNet, no target data)", "population", _CENSORED),
    "transfer_none_uncensored": ("population (EEGNet, no target data)", "population", {"penalty": None}),
    "transfer_unlabeled": ("subject-MMD (EEGNet, unlabelled target data)", "subject", _CENSORED),
    "transfer_labeled": ("euclidean-MMD (EEGNet, labelled target data)", "euclidean", _CENSORED),
}


def pipeline_texts():
    """Return the content of every pipeline file by its name."""
    texts = {"baseline.yml": _dump("baseline (EEGNet)", [_PAPER, _EEGNET], _network(PAPER, penalty=None))}
    for method in METHODS:
        entry = next(dict(entry) for entry in QUICK_GRID if entry["method"] == method)
        label, citation = _METHODS[method]
        for mode in MODES:
            options = estimator_arguments({**entry, "mode": mode, "weight": max(entry["weight"])})
            step = _network(PAPER, **options)
            texts[f"{method}_{mode}.yml"] = _dump(f"{label}-{mode} (EEGNet)", [_PAPER, citation], step)
    for file, (name, normalize, penalty) in _TRANSFER.items():
        step = _network(_RECIPE, **penalty, normalize=normalize)
        texts[f"{file}.yml"] = _dump(name, [_PAPER, _EEGNET], step)
    step = _network(_RECIPE, **_CENSORED, normalize="population")
    name = "own-files (EEGNet, no target data)"
    texts["own_files.yml"] = _dump(name, [_PAPER, _EEGNET], step, paradigms=["EpochsParadigm"])
    steps = [
        ("SubjectNormalizer", "braindecode_censor", {"strategy": "euclidean"}),
        ("Covariances", "pyriemann.estimation", {"estimator": "lwf"}),
        ("TangentSpace", "pyriemann.tangentspace", {"metric": "riemann"}),
        ("LogisticRegression", "sklearn.linear_model", {"max_iter": 1000, "class_weight": "balanced"}),
    ]
    texts["transfer_riemann.yml"] = _dump(
        "Riemann (aligned subjects, unlabelled target data)", _RIEMANN, *steps
    )
    return texts


def pipelines_folder():
    """Return the folder with the shipped pipelines, in a wheel and in an editable install alike."""
    package = Path(braindecode_censor.__file__).parent
    inside = package / "moabb_pipelines"
    return inside if inside.is_dir() else package.parent / "moabb_pipelines"


def write_pipelines(folder):
    """Write all pipeline files and return their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = pipeline_texts()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def _network(recipe, **options):
    return "CensoredEEGClassifier", "braindecode_censor", {"module": "EEGNet", **recipe, **options}


def _dump(name, citations, *steps, paradigms=PARADIGM_NAMES):
    # MOABB's summary plot cuts a name after its first word, so every first word occurs once.
    pipeline = [{"name": step, "from": module, "parameters": options} for step, module, options in steps]
    content = {"name": name, "paradigms": list(paradigms), "citations": citations, "pipeline": pipeline}
    note = "# Written by `autotransfer pipelines --out moabb_pipelines`; change the grid, not this file.\n"
    return note + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)
