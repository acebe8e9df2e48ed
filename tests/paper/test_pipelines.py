"""Are the shipped YAML files the grid's, and does MOABB run every one of them?"""

import moabb
import moabb.datasets
import numpy as np
import pytest
import yaml
from moabb.datasets.fake import FakeDataset
from moabb.datasets.utils import _init_dataset
from moabb.evaluations import CrossSubjectEvaluation
from moabb.evaluations.protocols import CrossSubjectMode
from moabb.pipelines.utils import create_pipeline_from_config

import braindecode_censor as bc
from braindecode_censor.cli.main import main
from braindecode_censor.datasets import ERP, SimulatedSubjects
from braindecode_censor.paper.grid import METHODS, QUICK_GRID
from braindecode_censor.paper.pipelines import PARADIGM_FOLDERS, pipeline_texts, pipelines_folder
from braindecode_censor.trials.normalize import SubjectNormalizer

TIERS = {
    "transfer_none.yml": "TRAIN",
    "transfer_unlabeled.yml": "TRAIN_AND_TARGET_UNLABELED_FULL",
    "transfer_riemann.yml": "TRAIN_AND_TARGET_UNLABELED_20P",
    "transfer_labeled.yml": "TRAIN_AND_TARGET_LABELED_50P",
}
N_FILES = 16 + len(TIERS)
SMALL = {"n_trials": 16, "n_chans": 4, "duration": 1.0}


@pytest.fixture(scope="module")
def texts():
    """What the files should say; not to be changed."""
    return pipeline_texts()


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


def test_the_files_are_the_grid(texts):
    folder = pipelines_folder()
    found = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.yml")}
    assert found == texts
    for paradigm in PARADIGM_FOLDERS:
        read = {
            name.split("/")[1]: yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            for name, text in found.items()
            if name.startswith(paradigm + "/")
        }
        assert {name for name in read if name.startswith("transfer")} == set(TIERS)
        assert len({content["name"] for content in read.values()}) == len(read) == N_FILES
        contents = [content for name, content in read.items() if name not in TIERS]
        parameters = [content["pipeline"][0]["parameters"] for content in contents]
        pairs = {(p["penalty"], p["penalty"] and p["censoring"]) for p in parameters}
        modes = ("marginal", "conditional", "complementary")
        assert pairs == {(None, None), *((m, mode) for m in METHODS for mode in modes)}
        assert all(len(content["citations"]) == 2 for content in contents)
        for p in parameters:
            weights = [entry["weight"] for entry in QUICK_GRID if entry["method"] == p["penalty"]]
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


# MOABB runs all files of one paradigm; those of the others differ in the paradigm's name alone.
SOME = ("baseline.yml", "mige_complementary.yml")


@pytest.mark.parametrize("paradigm", PARADIGM_FOLDERS)
def test_benchmark_runs_the_files(paradigm, texts, known, tmp_path, monkeypatch):
    """Unchanged but for the 500 epochs, which are one here, and the 1500 steps, which are two."""
    for name, text in texts.items():
        folder, file = name.split("/")
        if folder == paradigm and (paradigm == "ERP" or file in SOME):
            path = tmp_path / "pipelines" / file
            path.parent.mkdir(exist_ok=True)
            short = text.replace("max_epochs: 500", "max_epochs: 1").replace(
                "max_steps: 1500", "max_steps: 2"
            )
            path.write_text(short)
    if paradigm in TINY:
        dataset = TINY[paradigm]()
    else:
        kind, events = {"P300": ("p300", ("Target", "NonTarget"))}.get(
            paradigm, ("imagery", ("left_hand", "right_hand"))
        )
        dataset = FakeDataset(
            event_list=events,
            n_sessions=1,
            n_runs=1,
            n_subjects=4,
            paradigm=kind,
            n_events=12,
            duration=40,
            seed=7,
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
    count = N_FILES if paradigm == "ERP" else len(SOME)
    assert len(results) == count * 4 and results["pipeline"].nunique() == count
    assert np.isfinite(results["score"]).all()


@pytest.mark.parametrize("name", TIERS)
def test_every_tier_runs_in_its_mode_and_uses_the_persons_trials(name, texts, tmp_path, monkeypatch):
    content = yaml.safe_load(texts[f"ERP/{name}"])
    content["pipeline"][0]["parameters"] |= {"max_steps": 2} if "riemann" not in name else {}
    pipeline = create_pipeline_from_config(content["pipeline"])
    seen = []
    add = SubjectNormalizer._add_to_target
    monkeypatch.setattr(
        SubjectNormalizer, "_add_to_target", lambda self, X: seen.append(len(X)) or add(self, X)
    )
    mode = CrossSubjectMode[TIERS[name]]
    evaluation = CrossSubjectEvaluation(
        ERP(), datasets=[TinyErp()], cs_mode=mode, hdf5_path=str(tmp_path), overwrite=True
    )
    results = evaluation.process({content["name"]: pipeline})
    assert len(results) == 4
    assert results["score"].between(0, 1).all()
    n_target = round(16 * mode.calibration_size)
    assert seen == ([] if n_target == 0 else pytest.approx([n_target] * 4, abs=1))


def test_the_command_lists_and_writes(texts, tmp_path, capsys):
    assert main(["pipelines"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == N_FILES * len(PARADIGM_FOLDERS)
    assert main(["pipelines", "--out", str(tmp_path)]) == 0
    assert {p.relative_to(tmp_path).as_posix(): p.read_text() for p in tmp_path.rglob("*.yml")} == texts
