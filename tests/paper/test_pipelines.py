"""The YAML files hold every method and mode, and MOABB runs all of them."""

from argparse import Namespace
from pathlib import Path

import moabb
import moabb.datasets
import moabb.paradigms
import numpy as np
import pytest
import yaml
from moabb.analysis.plotting import _simplify_names
from moabb.datasets.utils import _init_dataset
from moabb.evaluations import CrossSubjectEvaluation
from moabb.evaluations.protocols import CrossSubjectMode
from moabb.pipelines.utils import create_pipeline_from_config

import braindecode_censor as bc
from braindecode_censor.cli.pipelines import run
from braindecode_censor.datasets import ERP, EpochsParadigm, SimulatedSubjects
from braindecode_censor.paper.grid import METHODS, QUICK_GRID
from braindecode_censor.penalties.modes import MODES
from braindecode_censor.penalties.options import estimator_arguments
from braindecode_censor.training.arguments import PAPER
from braindecode_censor.trials.normalize import SubjectNormalizer

FOLDER = Path(__file__).parents[2] / "moabb_pipelines"
TEXTS = {path.name: path.read_text() for path in FOLDER.glob("*.yml")}
# The first two are MOABB's own. MOABB finds the other four after braindecode_censor.register().
PARADIGM_NAMES = ["P300", "MotorImagery", "ERP", "ErrorPotentials", "FacesHouses", "EMGGestures"]
CS_MODES = {
    "transfer_none.yml": "TRAIN",
    "transfer_none_uncensored.yml": "TRAIN",
    "transfer_unlabeled.yml": "TRAIN_AND_TARGET_UNLABELED_FULL",
    "transfer_riemann.yml": "TRAIN_AND_TARGET_UNLABELED_20P",
    "transfer_labeled.yml": "TRAIN_AND_TARGET_LABELED_50P",
}
# 500 epochs become one, and 1500 steps become two.
SHORT = (("max_epochs: 500", "max_epochs: 1"), ("max_steps: 1500", "max_steps: 2"))


class Tiny(SimulatedSubjects):
    """Four subjects, made without arguments, as MOABB makes its datasets."""

    def __init__(self):
        super().__init__(4, 16, n_chans=4, sfreq=64.0, duration=1.0)


def test_files_hold_every_method_and_mode_by_the_papers_protocol():
    contents = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
    short_names = {_simplify_names(content["name"]) for content in contents.values()}
    assert len(short_names) == len(contents), "MOABB's summary plot shows the first word of a name"
    assert contents.pop("own_files.yml")["paradigms"] == ["EpochsParadigm"]
    assert all(content["paradigms"] == PARADIGM_NAMES for content in contents.values())
    assert all(len(content["citations"]) == 2 for content in contents.values())
    by_file = {name: c["pipeline"][0]["parameters"] for name, c in contents.items() if name not in CS_MODES}
    assert by_file.pop("baseline.yml") == {"module": "EEGNet", **PAPER, "penalty": None}
    for method in METHODS:
        entry = next(entry for entry in QUICK_GRID if entry["method"] == method)
        for mode in MODES:
            arguments = estimator_arguments({**entry, "mode": mode, "weight": max(entry["weight"])})
            assert by_file.pop(f"{method}_{mode}.yml") == {"module": "EEGNet", **PAPER, **arguments}
    assert not by_file


@pytest.fixture
def registered(monkeypatch):
    """MOABB lists the tiny dataset and the paradigm of own files during a test."""
    bc.register()
    monkeypatch.setattr(moabb.datasets, "Tiny", Tiny, raising=False)
    monkeypatch.setattr(moabb.paradigms, "EpochsParadigm", EpochsParadigm, raising=False)
    _init_dataset()
    yield
    monkeypatch.undo()
    _init_dataset()


def test_paradigms_of_the_files_are_known_to_moabb(registered):
    assert all(hasattr(moabb.paradigms, name) for name in PARADIGM_NAMES)


@pytest.mark.parametrize("paradigm", ["ERP", "EpochsParadigm"])
def test_benchmark_runs_the_files(paradigm, registered, tmp_path, monkeypatch):
    (tmp_path / "pipelines").mkdir()
    for name, text in TEXTS.items():
        for long, short in SHORT:
            text = text.replace(long, short)
        (tmp_path / "pipelines" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    results = moabb.benchmark(
        pipelines=str(tmp_path / "pipelines"),
        evaluations=["CrossSubject"],
        paradigms=[paradigm],
        include_datasets=[Tiny()],
        results=str(tmp_path / "results"),
        output=str(tmp_path / "output"),
        n_jobs=1,
    )
    count = {"ERP": len(TEXTS) - 1, "EpochsParadigm": 1}[paradigm]
    assert len(results) == count * 4 and results["pipeline"].nunique() == count
    assert np.isfinite(results["score"]).all()


@pytest.mark.parametrize("name", CS_MODES)
def test_transfer_file_uses_the_target_data_of_its_mode(name, tmp_path, monkeypatch):
    content = yaml.safe_load(TEXTS[name])
    content["pipeline"][0]["parameters"] |= {"max_steps": 2} if "riemann" not in name else {}
    target_sizes = []
    add = SubjectNormalizer._add_to_target
    monkeypatch.setattr(
        SubjectNormalizer, "_add_to_target", lambda self, X: target_sizes.append(len(X)) or add(self, X)
    )
    mode = CrossSubjectMode[CS_MODES[name]]
    evaluation = CrossSubjectEvaluation(
        ERP(), datasets=[Tiny()], cs_mode=mode, hdf5_path=str(tmp_path), overwrite=True
    )
    results = evaluation.process({content["name"]: create_pipeline_from_config(content["pipeline"])})
    assert len(results) == 4 and results["score"].between(0, 1).all()
    n_target = round(16 * mode.calibration_size)
    assert target_sizes == ([] if n_target == 0 else pytest.approx([n_target] * 4, abs=1))


def test_pipelines_command_lists_and_copies(tmp_path, capsys):
    assert run(Namespace(out=None, json=False)) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(TEXTS)
    assert run(Namespace(out=str(tmp_path / "new"), json=False)) == 0
    assert {path.name: path.read_text() for path in (tmp_path / "new").iterdir()} == TEXTS
