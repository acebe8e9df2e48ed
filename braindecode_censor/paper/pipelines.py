"""MOABB's YAML pipelines: the paper's, from the grid that AutoTransfer searches, and one for each transfer tier."""

from pathlib import Path

import yaml

import braindecode_censor
from braindecode_censor.paper.grid import BASELINE, METHODS, QUICK_GRID, Setting
from braindecode_censor.training.arguments import PAPER

__all__ = ["PARADIGM_FOLDERS", "pipeline_texts", "pipelines_folder", "write_pipelines"]

#: One folder per paradigm. The first two are MOABB's own; MOABB knows the others after
#: ``braindecode_censor.register()``.
PARADIGM_FOLDERS = ("P300", "MotorImagery", "ERP", "ErrorPotentials", "FacesHouses", "EMGGestures")
_MODES = ("marginal", "conditional", "complementary")
_PAPER = "Smedemark-Margulies et al. (2022), AutoTransfer, https://arxiv.org/abs/2112.09796"
_CITATIONS = {
    "adv": "Özdenizci et al. (2020), adversarial inference for EEG, https://doi.org/10.1109/ACCESS.2020.2971600",
    "mige": "Wen et al. (2020), Mutual information gradient estimation, https://arxiv.org/abs/2005.01123",
    "mmd": "Gretton et al. (2012), A kernel two-sample test, https://jmlr.org/papers/v13/gretton12a.html",
    "pairmmd": "Gretton et al. (2012), A kernel two-sample test, https://jmlr.org/papers/v13/gretton12a.html",
    "began": "Berthelot et al. (2017), BEGAN, https://arxiv.org/abs/1703.10717",
    "baseline": "Lawhern et al. (2018), EEGNet, https://doi.org/10.1088/1741-2552/aace8c",
}
_ALIGNMENT = "He and Wu (2020), Euclidean alignment, https://doi.org/10.1109/TBME.2019.2913914"
_TANGENT_SPACE = "Barachant et al. (2013), Riemannian kernel, https://doi.org/10.1016/j.neucom.2012.12.039"
# What is trained well for people never seen; written out, so that a file says all that it does.
_RECIPE = {
    "module": "EEGNet",
    "penalty": "mmd",
    "censoring": "conditional",
    "weight": 0.3,
    "augment": "standard",
    "schedule": "one_cycle",
    "lr": 0.003,
    "max_steps": 1500,
    "keep": "last",
}
# What may be known of the new person decides what is made equal between people. A few labels also settle the rotation
# that Euclidean alignment leaves open, because the last layer is fitted again.
_TIERS = {
    "none": ("no data of the person", "population"),
    "unlabeled": ("unlabelled trials of the person", "subject"),
    "labeled": ("labelled trials of the person", "euclidean"),
}


def pipeline_settings():
    """Return the settings that are shipped: every method in every mode, and the baseline."""
    found = [BASELINE]
    for method in METHODS:
        entry = next(dict(entry) for entry in QUICK_GRID if entry["method"] == method)
        weight = max(entry["weight"])
        options = {k: v for k, v in entry.items() if k not in ("method", "mode", "weight")}
        found += [Setting(method, mode, weight, tuple(sorted(options.items()))) for mode in _MODES]
    return found


def pipeline_texts():
    """Return the content of all pipeline files."""
    texts = {}
    for paradigm in PARADIGM_FOLDERS:
        for setting in pipeline_settings():
            mode = f"_{setting.mode}" if setting.mode else ""
            texts[f"{paradigm}/{setting.method}{mode}.yml"] = _text(setting, paradigm)
        for tier in _TIERS:
            texts[f"{paradigm}/transfer_{tier}.yml"] = _tier_text(tier, paradigm)
        texts[f"{paradigm}/transfer_riemann.yml"] = _riemann_text(paradigm)
    return texts


def pipelines_folder():
    """Return the folder with the shipped pipelines, in a wheel and in an editable install alike."""
    package = Path(braindecode_censor.__file__).parent
    inside = package / "moabb_pipelines"
    return inside if inside.is_dir() else package.parent / "moabb_pipelines"


def write_pipelines(folder):
    """Write all pipeline files."""
    paths = []
    for name, text in pipeline_texts().items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def _text(setting, paradigm):
    title = setting.method if setting.mode is None else f"{setting.method}, {setting.mode}"
    parameters = {"module": "EEGNet", **PAPER, **setting.parameters()}
    cited = [_PAPER, _CITATIONS[setting.method]]
    return _dump(
        f"EEGNet {title}", paradigm, cited, [("CensoredEEGClassifier", "braindecode_censor", parameters)]
    )


def _tier_text(tier, paradigm):
    known, normalize = _TIERS[tier]
    step = ("CensoredEEGClassifier", "braindecode_censor", {**_RECIPE, "normalize": normalize})
    return _dump(f"EEGNet transfer, {known}", paradigm, [_PAPER, _CITATIONS["baseline"]], [step])


def _riemann_text(paradigm):
    steps = [
        ("SubjectNormalizer", "braindecode_censor", {"strategy": "euclidean"}),
        ("Covariances", "pyriemann.estimation", {"estimator": "lwf"}),
        ("TangentSpace", "pyriemann.tangentspace", {"metric": "riemann"}),
        ("LogisticRegression", "sklearn.linear_model", {"max_iter": 1000, "class_weight": "balanced"}),
    ]
    return _dump("Riemannian transfer, aligned people", paradigm, [_ALIGNMENT, _TANGENT_SPACE], steps)


def _dump(name, paradigm, citations, steps):
    pipeline = [{"name": step, "from": module, "parameters": options} for step, module, options in steps]
    content = {"name": name, "paradigms": [paradigm], "citations": citations, "pipeline": pipeline}
    note = "# Written by `autotransfer pipelines --out moabb_pipelines`; change the grid, not this file.\n"
    return note + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)
