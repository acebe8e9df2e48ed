"""Are the shipped YAML files the grid's, and does MOABB run every one of them?"""

import moabb
import moabb.datasets
import numpy as np
import pytest
import yaml
from moabb.datasets.fake import FakeDataset
from moabb.datasets.utils import _init_dataset

import braindecode_censor as bc
from braindecode_censor.autotransfer.cli import main
from braindecode_censor.autotransfer.pipelines import PARADIGM_FOLDERS, pipeline_texts, pipelines_folder
from braindecode_censor.datasets import SimulatedSubjects
from braindecode_censor.search.candidates import METHODS, QUICK

SMALL = {"n_trials": 16, "n_channels": 4, "duration": 1.0}


class TinyErp(SimulatedSubjects):
    """Four subjects, made without arguments, as MOABB makes its datasets."""

    kind, label = "erp", "ERP"

    def __init__(self):
        super().__init__(
            4, **SMALL, sfreq=64.0 if self.kind == "erp" else 250.0, kind=self.kind, n_classes=None
        )
        self.paradigm = {
            "ERP": "p300",
            "ErrorPotentials": "errp",
            "FacesHouses": "ecog",
            "EMGGestures": "emg",
        }[self.label]
        self.code = f"Tiny-{self.label}"


class TinyErrP(TinyErp):
    label = "ErrorPotentials"


class TinyFaces(TinyErp):
    label = "FacesHouses"


class TinyEmg(TinyErp):
    kind, label = "emg", "EMGGestures"


TINY = {cls.label: cls for cls in (TinyErp, TinyErrP, TinyFaces, TinyEmg)}


def test_the_files_are_the_grid():
    folder = pipelines_folder()
    found = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.yml")}
    assert found == pipeline_texts()
    for paradigm in PARADIGM_FOLDERS:
        contents = [yaml.safe_load(text) for name, text in found.items() if name.startswith(paradigm + "/")]
        parameters = [content["pipeline"][0]["parameters"] for content in contents]
        pairs = {(p["penalty"], p.get("censoring")) for p in parameters}
        modes = ("marginal", "conditional", "complementary")
        assert pairs == {(None, None), *((m, mode) for m in METHODS for mode in modes)}
        assert len({content["name"] for content in contents}) == len(contents) == 16
        assert all(len(content["citations"]) == 2 for content in contents)
        for p in parameters:
            weights = [entry["weight"] for entry in QUICK if entry["method"] == p["penalty"]]
            assert p["penalty"] is None or p["weight"] in weights[0]


@pytest.fixture
def known(monkeypatch):
    """MOABB knows the tiny datasets for the time of a test."""
    bc.register()
    for cls in TINY.values():
        monkeypatch.setattr(moabb.datasets, cls.__name__, cls, raising=False)
    _init_dataset()
    yield
    monkeypatch.undo()
    _init_dataset()


@pytest.mark.slow
@pytest.mark.parametrize("paradigm", PARADIGM_FOLDERS)
def test_benchmark_runs_every_file(paradigm, known, tmp_path, monkeypatch):
    """Unchanged but for the 500 epochs, which are one here."""
    for name, text in pipeline_texts().items():
        if name.startswith(paradigm + "/"):
            path = tmp_path / "pipelines" / name.split("/")[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.replace("max_epochs: 500", "max_epochs: 1"))
    if paradigm in TINY:
        dataset = TINY[paradigm]()
    else:
        kind, events = {"P300": ("p300", ("Target", "NonTarget"))}.get(
            paradigm, ("imagery", ("left_hand", "right_hand"))
        )
        dataset = FakeDataset(
            event_list=events, n_sessions=1, n_runs=1, n_subjects=4, paradigm=kind, n_events=24, seed=7
        )
    monkeypatch.chdir(tmp_path)
    results = moabb.benchmark(
        pipelines=str(tmp_path / "pipelines"),
        evaluations=["CrossSubject"],
        paradigms=[paradigm],
        include_datasets=[dataset],
        results=str(tmp_path / "results"),
        output=str(tmp_path / "output"),
        n_jobs=1,
    )
    assert len(results) == 16 * 4 and results["pipeline"].nunique() == 16
    assert np.isfinite(results["score"]).all()


def test_the_command_lists_and_writes(tmp_path, capsys):
    assert main(["pipelines"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 16 * len(PARADIGM_FOLDERS)
    assert main(["pipelines", "--out", str(tmp_path)]) == 0
    assert {
        p.relative_to(tmp_path).as_posix(): p.read_text() for p in tmp_path.rglob("*.yml")
    } == pipeline_texts()
