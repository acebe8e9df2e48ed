"""Registration with MOABB, whose own lists stay intact, and the list of datasets of the command."""

import json

import moabb
import moabb.datasets
import moabb.paradigms
import pytest
from moabb.datasets.base import is_abbrev, is_camel_kebab_case
from moabb.datasets.fake import FakeDataset
from moabb.datasets.utils import dataset_list, dataset_search
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import braindecode_censor as bc
from braindecode_censor.cli.main import main
from braindecode_censor.datasets import (
    DATASETS,
    PARADIGMS,
    ECoGFaces,
    EpochsFolder,
    SimulatedSubjects,
    default_paradigm,
    get_dataset,
    save_subject,
)

OURS = {"SimulatedSubjects", "ErrP", "ECoGFaces", "RSVP", "ASLEMG"}


@pytest.fixture
def registered():
    """Register for one test and put MOABB back as it was."""
    before = list(dataset_search())
    bc.register()
    yield {type(dataset).__name__ for dataset in before}
    for module, classes in ((moabb.datasets, DATASETS), (moabb.paradigms, PARADIGMS)):
        for cls in classes.values():
            if hasattr(module, cls.__name__):
                delattr(module, cls.__name__)
    moabb.datasets.utils._init_dataset()


def test_moabb_finds_ours_and_keeps_its_own(registered):
    names = [type(dataset).__name__ for dataset in dataset_search()]
    assert set(names) == registered | OURS and len(names) == len(set(names))
    bc.register()  # a second time changes nothing
    assert len(dataset_list) == len(set(dataset_list)) and len(dataset_search()) == len(names)
    p300 = {dataset.code for dataset in moabb.paradigms.P300().datasets}
    assert "RSVP" in p300 and "ErrP" not in p300
    assert {type(d).__name__ for d in PARADIGMS["errp"]().datasets} == {"ErrP"}
    assert {type(d).__name__ for d in PARADIGMS["emg"]().datasets} == {"ASLEMG"}


def test_a_name_moabb_uses_otherwise_is_not_overwritten(monkeypatch):
    monkeypatch.setattr(moabb.datasets, "ErrP", int, raising=False)
    with pytest.raises(ValueError, match=r"moabb\.datasets already has another ErrP.*Nothing was registered"):
        bc.register()
    assert moabb.datasets.ErrP is int and not hasattr(moabb.datasets, "SimulatedSubjects")


class SmallStudy(SimulatedSubjects):
    def __init__(self):
        super().__init__(4, 40, seed=5)


def test_a_further_dataset_is_registered(registered, monkeypatch):
    monkeypatch.setattr(moabb.datasets, "SmallStudy", SmallStudy, raising=False)  # removed afterwards
    bc.register(SmallStudy)
    assert "SmallStudy" in {type(d).__name__ for d in moabb.paradigms.P300().datasets}
    for wrong in ("SmallStudy", int):
        with pytest.raises(
            ValueError, match="pass a dataset or a class of MOABB's BaseDataset or BaseParadigm"
        ):
            bc.register(wrong)


def test_a_broken_folder_does_not_break_moabbs_lists(registered, tmp_path, monkeypatch):
    """dataset_search makes every dataset with no arguments, whatever lies in the default folders."""
    (tmp_path / "subject_01.npz").write_bytes(b"no archive")
    monkeypatch.setenv("MNE_DATASETS_RSVP_PATH", str(tmp_path))
    assert "RSVP" in {dataset.code for dataset in dataset_search()}
    with pytest.raises(ValueError, match=r"subject_01\.npz cannot be read"):
        get_dataset("rsvp").get_data([1])
    assert main(["datasets"]) == 0


def _average(X):
    return X.reshape(*X.shape[:2], -1, 16).mean(axis=-1).reshape(len(X), -1)


def test_moabb_benchmark_runs_a_folder_given_as_an_object(registered, tmp_path, monkeypatch, caplog):
    X, y, subjects = SimulatedSubjects(3, 24, n_chans=4, sfreq=64.0).arrays()
    for subject in (1, 2, 3):
        rows = subjects == subject
        options = {
            "label_names": ["NonTarget", "Target"],
            "sfreq": 64.0,
            "ch_names": ["Fz", "Cz", "Pz", "Oz"],
        }
        save_subject(tmp_path / f"subject_{subject}.npz", 1e-6 * X[rows], y[rows], **options)
    dataset = EpochsFolder(tmp_path, code="MyStudy-2024")
    assert "abbreviation" not in caplog.text
    monkeypatch.setattr(moabb.datasets, "MyStudy_2024", None, raising=False)  # removed afterwards
    monkeypatch.delattr(moabb.datasets, "MyStudy_2024")
    for later in (EpochsFolder(tmp_path, code="MyStudy-2024"), dataset):  # the later one replaces the earlier
        bc.register(later)
    assert [d for d in moabb.paradigms.P300().datasets if d.code == "MyStudy-2024"] == [dataset]
    monkeypatch.chdir(tmp_path)
    pipeline = make_pipeline(FunctionTransformer(_average), LinearDiscriminantAnalysis())
    results = moabb.benchmark(
        pipelines=[{"name": "lda", "pipeline": pipeline, "paradigms": ["ERP", "P300"]}],
        evaluations=["CrossSubject"],
        results=str(tmp_path / "results"),
        output=str(tmp_path / "out"),
        include_datasets=[dataset],
        n_jobs=1,
    )
    assert len(results) == 6 and set(results["dataset"]) == {"MyStudy-2024"}


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "folder"])
def test_names_follow_moabbs_rule_and_constructors_need_nothing(name, caplog):
    dataset = get_dataset(name)
    assert is_camel_kebab_case(dataset.code) and is_abbrev(type(dataset).__name__, dataset.code)
    assert "abbreviation" not in caplog.text
    assert default_paradigm(dataset).is_valid(dataset)
    if name != "simulated":
        document = dataset.metadata.documentation
        assert document.license and document.how_to_acknowledge and document.doi == dataset.doi
    assert DATASETS["ecogfaces"](n_chans=8).code == "ECoGFaces-8ch"
    assert is_abbrev("ECoGFaces", "ECoGFaces-8ch") and is_abbrev("ErrP", "ErrP-test")


def test_datasets_by_name():
    assert isinstance(get_dataset("simulated", n_subjects=2, n_trials=20), SimulatedSubjects)
    assert isinstance(get_dataset("ecogfaces", n_chans=5), ECoGFaces)
    with pytest.raises(
        ValueError, match=r"dataset='erpp' is unknown; choose one of simulated, errp.* mean 'errp'"
    ):
        get_dataset("erpp")
    with pytest.raises(ValueError, match=r"n_channels.*Options: folder, n_chans, strict, selection"):
        get_dataset("ecogfaces", n_channels=5)
    assert (
        DATASETS["folder"] is EpochsFolder and default_paradigm(get_dataset("errp"), resample=9).resample == 9
    )


def test_the_command_lists_them(capsys, rsvp_folder, monkeypatch):
    monkeypatch.setenv("MNE_DATASETS_RSVP_PATH", str(rsvp_folder[0]))
    monkeypatch.setitem(DATASETS, "small", SmallStudy)
    monkeypatch.setitem(DATASETS, "fake", FakeDataset)  # not derived from our base
    assert main(["datasets", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["datasets"]}
    assert set(rows) == set(DATASETS)
    expected = {"modality": "eeg", "subjects": 16, "trials": 5440, "channels": 56, "on_disk": False}
    assert rows["errp"].items() >= expected.items() and "Kaggle" in rows["errp"]["licence"]
    assert rows["ecogfaces"]["licence"] == "CC BY-SA 4.0" and rows["ecogfaces"]["trials"] == 4100
    assert rows["rsvp"]["on_disk"] is True and rows["simulated"]["on_disk"] is True
    assert rows["small"]["subjects"] == 4 and rows["small"]["trials"] == 160
    assert main(["datasets"]) == 0
    text = capsys.readouterr().out
    assert "on disk" in text and "automatic download" in text and "fake" in text


def test_every_name_can_be_imported():
    assert all(getattr(bc.datasets, name) is not None for name in bc.datasets.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'ERRP'"):
        bc.datasets.ERRP  # noqa: B018
