"""ErrP: the files of the challenge to the sample, damaged files named."""

import re
import shutil

import numpy as np
import pandas as pd
import pytest
import standins

from braindecode_censor.datasets import ErrorPotentials, ErrP
from braindecode_censor.datasets.errp import FEEDBACKS, TEST, TRAIN


def test_channels_units_rate_and_montage(errp_folder):
    folder, _ = errp_folder
    raw = ErrP(folder)._get_single_subject_data(6)["1"]["0"]
    table = pd.read_csv(folder / "train" / "Data_S06_Sess02.csv")
    assert raw.info["sfreq"] == 200 and raw.n_times == len(table)
    assert raw.get_channel_types() == ["eeg"] * 56 + ["eog"]
    assert "PO8" in raw.ch_names and "P08" not in raw.ch_names
    np.testing.assert_allclose(raw.get_data(["PO8"])[0], 1e-6 * table["P08"], rtol=1e-12)
    np.testing.assert_allclose(raw.get_data(["EOG"])[0], 1e-6 * table["EOG"], rtol=1e-12)
    positions = np.array([raw.info["chs"][k]["loc"][:3] for k in range(56)])
    assert np.isfinite(positions).all() and np.linalg.norm(positions, axis=1).min() > 0.05
    po8, p8 = (positions[raw.ch_names.index(name)] for name in ("PO8", "P8"))
    assert po8[1] < p8[1]  # PO8 lies behind P8


def test_epochs_carry_their_own_number_and_label(errp_folder):
    """The trial's number is written into its first sample: onsets and labels match trial by trial."""
    folder, truth = errp_folder
    assert ErrP(folder).subject_list == TRAIN and len(TRAIN) == 16 and len(TEST) == 10
    dataset = ErrP(folder, selected_subjects=[7])
    X, y, metadata = ErrorPotentials().get_data(dataset)
    assert X.shape == (340, 56, 260)
    for session in range(5):
        rows = metadata["session"] == str(session)
        labels, _ = truth[7, session + 1]
        assert len(labels) == FEEDBACKS[session]
        np.testing.assert_allclose(X[rows, 0, 0], 1001 + np.arange(len(labels)))
        assert list(y[rows]) == ["correct" if label else "error" for label in labels]
        assert np.all(np.sign(X[rows, 5:15, :10].mean(axis=(1, 2))) == np.where(labels, 1, -1))


def test_nested_zips_are_unpacked_once(errp_folder, tmp_path):
    folder, truth = errp_folder
    small = tmp_path / "unpacked"
    (small / "train").mkdir(parents=True)
    for session in range(1, 6):
        shutil.copy(folder / "train" / f"Data_S11_Sess{session:02d}.csv", small / "train")
    shutil.copy(folder / "TrainLabels.csv", small)
    kaggle = tmp_path / "kaggle"
    kaggle.mkdir()
    standins.zip_errp(small, kaggle)
    dataset = ErrP(kaggle, selected_subjects=[11])
    assert dataset.is_local()
    sessions = dataset.get_data()[11]
    np.testing.assert_array_equal(np.round(sessions["4"]["0"].annotations.onset * 200), truth[11, 5][1])
    written = {path: path.stat().st_mtime_ns for path in kaggle.rglob("*.csv")}
    ErrP(kaggle, selected_subjects=[11]).get_data()
    assert written == {path: path.stat().st_mtime_ns for path in kaggle.rglob("*.csv")}


def test_test_subjects_use_their_own_labels(tmp_path):
    truth = standins.write_errp(tmp_path, subjects=[1])
    (tmp_path / "TrainLabels.csv").rename(tmp_path / "true_labels.csv")
    dataset = ErrP(tmp_path, split="test", selected_subjects=[1])
    assert dataset.code == "ErrP-test"
    raw = dataset.get_data()[1]["0"]["0"]
    assert list(raw.annotations.description) == ["correct" if y else "error" for y in truth[1, 1][0]]


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    standins.write_errp(folder, subjects=[2])
    return folder


@pytest.fixture
def one_subject(intact, tmp_path):
    return shutil.copytree(intact, tmp_path / "errp")


def _edit(path, change):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(change(lines)))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: [*lines[:-1], lines[-1][:60]], r"line \d+: column \w+: no number"),
        (lambda lines: lines[: len(lines) // 2], r"marks \d+ feedbacks, the labels 60"),
        (lambda lines: lines[:-30], r"ends \d+ samples after the last feedback; 260 needed"),
        (lambda lines: [lines[0].replace(",Cz,", ","), *lines[1:]], r"line 1: the columns differ .* \(Cz\)"),
        (lambda lines: [lines[0].replace("P08", "P8"), *lines[1:]], r"line 1: .* \(P08\)"),
        (lambda lines: [lines[0].replace("Fp1,Fp2", "Fp2,Fp1"), *lines[1:]], r"line 1: .* \(other order"),
        (lambda x: [*x[:9], x[9].replace(",", ",x", 1), *x[10:]], "line 10: column Fp1: no number"),
        (lambda x: [*x[:9], x[9].rstrip() + ",5\n", *x[10:]], "Expected 59 fields in line 10, saw 60"),
        (lambda lines: [*lines[:50], *lines[60:]], r"line 51: Time advances by 0\.055 s; expected 0\.005"),
        (lambda lines: lines[:1], "holds 0 rows"),
        (
            lambda x: [*x[:20], re.sub("^(([^,]*,){3})[^,]*", r"\1", x[20]), *x[21:]],
            "line 21: column AF7: no nu",
        ),
        (
            lambda x: [*x[:5], x[5].rstrip()[:-1] + "7\n", *x[6:]],
            "line 6: FeedBackEvent is 7; expected 0 or 1",
        ),
    ],
)
def test_a_bad_recording_is_named(one_subject, damage, message):
    _edit(one_subject / "train" / "Data_S02_Sess03.csv", damage)
    with pytest.raises(ValueError, match=message) as error:
        ErrP(one_subject).get_data([2])
    assert "Data_S02_Sess03.csv" in str(error.value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda x: [line.replace("S02_", "S06_") for line in x], "has 0 labels for S02_Sess01; expected 60"),
        (lambda x: x[:200], r"has 19 labels for S02_Sess04; expected 60"),
        (lambda x: [*x[:50], *x[51:]], "numbered 1 to 60, but there are 59"),
        (lambda x: [*x, x[1]], "IdFeedBack holds S02_Sess01_FB001 more than once"),
        (lambda x: [*x[:3], x[3].replace(",1", ",2").replace(",0", ",2"), *x[4:]], "line 4: Prediction is 2"),
        (lambda x: [*x[:3], "S2_Sess1_FB1,1\n", *x[4:]], "line 4: IdFeedBack is 'S2_Sess1_FB1'"),
        (lambda x: ["Id,Label\n", *x[1:]], r"has the columns \['Id', 'Label'\]; expected"),
        (lambda x: [], "cannot be read"),
    ],
    ids=["other-subject", "cut", "gap", "twice", "value", "id", "header", "empty"],
)
def test_a_bad_label_file_is_named(one_subject, damage, message):
    _edit(one_subject / "TrainLabels.csv", damage)
    with pytest.raises(ValueError, match=message) as error:
        ErrP(one_subject).get_data([2])
    assert "TrainLabels.csv" in str(error.value)


def test_missing_and_misnamed_files_are_named(one_subject, tmp_path):
    train = one_subject / "train"
    (one_subject / "TrainLabels.csv").rename(tmp_path / "labels")
    with pytest.raises(ValueError, match=r"expected one TrainLabels\.csv"):
        ErrP(one_subject).get_data([2])
    (train / "Data_S02_Sess04.csv").rename(tmp_path / "Data_S02_Sess04.csv")
    with pytest.raises(ValueError, match=r"Data_S02_Sess04\.csv missing.*expected five sessions"):
        ErrP(one_subject).get_data([2])
    (one_subject / "copy").mkdir()
    shutil.copy(train / "Data_S02_Sess01.csv", one_subject / "copy")
    with pytest.raises(ValueError, match="subject 2, session 1 is there twice"):
        ErrP(one_subject).get_data([2])
    (one_subject / "copy" / "Data_S02_Sess01.csv").rename(train / "Data_S2_Sess1.csv")
    with pytest.raises(ValueError, match=r"Data_S2_Sess1\.csv is not called Data_SXX_SessYY\.csv"):
        ErrP(one_subject).get_data([2])
    dataset = ErrP(tmp_path / "nothing")
    assert not dataset.is_local()
    with pytest.raises(
        ValueError, match=r"(?s)kaggle competitions download -c inria-bci-challenge -p .*nothing"
    ):
        dataset.get_data([2])
    with pytest.raises(ValueError, match="split='tset' is unknown; choose one of train, test, all"):
        ErrP(split="tset")
