"""Folders of epochs: trials sample by sample, inconsistencies named."""

import shutil

import mne
import numpy as np
import pytest
import standins

from braindecode_censor.datasets import (
    ASLEMG,
    ERP,
    RSVP,
    EpochsFolder,
    EpochsParadigm,
    default_paradigm,
    read_subject,
    save_subject,
)
from braindecode_censor.datasets.epochs_folder import ordered_names


def write(folder, subject, name=None, **changes):
    X, y = standins.epochs(12, 4, 50, 3, subject)
    record = dict(
        X=X,
        y=y,
        label_names=["rest", "fist", "point"],
        sfreq=100.0,
        ch_names=["Fz", "Cz", "Pz", "EOG1"],
        ch_types=["eeg", "eeg", "eeg", "eog"],
        tmin=-0.13,
    )
    record |= changes
    path = folder / (name or f"subject_{subject:02d}.npz")
    np.savez(path, **{key: np.asarray(value) for key, value in record.items() if value is not None})
    return X, y


@pytest.fixture
def folder(tmp_path):
    for subject in (1, 2, 3):
        write(tmp_path, subject)
    return tmp_path


@pytest.mark.parametrize(
    ("sfreq", "tmin"),
    [
        (100.0, -0.13),
        (128.0, 0.0),
        (256.0, 0.27),
        (256.0, -0.2),
        (1000.0, 0.95),
        (333.3, -0.13),
        (333.3, 0.27),
    ],
)
def test_epochs_come_back_to_the_sample(tmp_path, sfreq, tmin):
    """Whatever the rate and the offset: no trial lost to rounding, none shifted."""
    for subject in (1, 2):
        write(tmp_path, subject, sfreq=sfreq, tmin=tmin)
    dataset = EpochsFolder(tmp_path)
    X, y, metadata = EpochsParadigm().get_data(dataset)
    for subject in (1, 2):
        expected, labels = standins.epochs(12, 4, 50, 3, subject)
        rows = (metadata["subject"] == subject).to_numpy()
        np.testing.assert_allclose(X[rows], 1e6 * expected[:, :3], rtol=1e-9)
        assert list(y[rows]) == [["rest", "fist", "point"][k] for k in labels]


def test_a_folder_is_one_line(folder):
    dataset = EpochsFolder(folder)
    assert dataset.subject_list == [1, 2, 3] and dataset.paradigm == "epochs"
    assert dataset.event_id == {"rest": 1, "fist": 2, "point": 3}
    raw = dataset.get_data([2])[2]["0"]["0"]
    assert raw.get_channel_types() == ["eeg", "eeg", "eeg", "eog"] and raw.info["sfreq"] == 100
    assert raw.info.get_montage() is not None and "EOG1" not in dataset.channels
    assert dataset.data_path(2) == [str(folder / "subject_02.npz")] and dataset.is_local()


@pytest.mark.parametrize(
    ("paradigm", "ch_type", "label_names"),
    [
        ("p300", "eeg", ["Target", "NonTarget"]),
        ("errp", "eeg", ["correct", "error"]),
        ("emg", "emg", ["a", "b"]),
        ("ecog", "ecog", ["face", "house"]),
    ],
)
def test_the_paradigm_follows_from_channels_and_classes(tmp_path, paradigm, ch_type, label_names):
    X, y = standins.epochs(12, 4, 50, 2, 1)
    write(tmp_path, 1, X=X, y=y, ch_types=[ch_type] * 4, label_names=label_names)
    dataset = EpochsFolder(tmp_path)
    assert dataset.paradigm == paradigm and EpochsFolder(tmp_path, paradigm="epochs").paradigm == "epochs"
    assert default_paradigm(dataset).get_data(dataset)[0].shape == (12, 4, 50)


def test_a_wider_window_than_recorded_is_refused(folder):
    dataset = EpochsFolder(folder)
    with pytest.raises(ValueError, match=r"tmax=0\.6 reach beyond the 0\.49 s that EpochsFolder"):
        EpochsParadigm(tmax=0.6).get_data(dataset)
    with pytest.raises(ValueError, match=r"tmin=-0\.1"):
        EpochsParadigm(tmin=-0.1).get_data(dataset)
    assert EpochsParadigm(tmin=0.1, tmax=0.3).get_data(dataset)[0].shape == (36, 3, 21)


def test_filtering_does_not_carry_one_trial_into_the_next(tmp_path):
    """A huge neighbour leaves a filtered trial unchanged."""
    X, y = standins.epochs(12, 4, 100, 3, 1)
    loud = X.copy()
    loud[5] *= 30
    filtered = []
    for name, data in (("a", X), ("b", loud)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, 1, X=data, y=y, tmin=0)
        filtered.append(EpochsParadigm(8, 30).get_data(EpochsFolder(tmp_path / name))[0])
    assert np.abs(filtered[0][4] - filtered[1][4]).max() < 1e-2 * np.abs(filtered[0][4]).max()
    assert np.abs(filtered[0][4] - 1e6 * X[4, :3]).max() > 0.5 * np.abs(filtered[0][4]).max()  # it did filter


def test_fif_epochs_per_subject(tmp_path):
    expected = {}
    for subject in (1, 2):
        X, y = standins.epochs(12, 3, 50, 2, subject)
        info = mne.create_info(["Fz", "Cz", "Pz"], 100.0, "eeg").set_montage("colin27_1005")
        info["bads"] = ["Cz"]
        events = np.c_[np.arange(12) * 100, np.zeros(12, int), 5 + 2 * y]
        epochs = mne.EpochsArray(
            X, info, events, tmin=-0.1, event_id={"left": 5, "right": 7}, verbose="ERROR"
        )
        epochs.save(tmp_path / f"subject_{subject}-epo.fif", fmt="double", verbose="ERROR")
        expected[subject] = X, np.array(["left", "right"])[y]
    dataset = EpochsFolder(tmp_path)
    X, y, metadata = EpochsParadigm().get_data(dataset)
    for subject, (signal, labels) in expected.items():
        rows = (metadata["subject"] == subject).to_numpy()
        np.testing.assert_allclose(X[rows], 1e6 * signal, rtol=1e-9)
        np.testing.assert_array_equal(y[rows], labels)
    content = (tmp_path / "subject_1-epo.fif").read_bytes()
    for keep in (0.9, 0.5, 0.05):
        (tmp_path / "subject_1-epo.fif").write_bytes(content[: int(keep * len(content))])
        with pytest.raises(ValueError, match=r"subject_1-epo\.fif cannot be read as MNE epochs"):
            EpochsFolder(tmp_path).get_data([1])


def test_sessions_runs_scale_and_units(tmp_path):
    X, y = standins.epochs(12, 4, 50, 3, 1)
    session = np.repeat(["training0", "Test0", "Test1"], 4)
    counts = np.round(X * 1e9).astype(np.int16)
    write(
        tmp_path, 1, X=counts, y=y, scale=[1.0, 2.0, 3.0, 4.0], unit="uV", session=session, run=["3", "1"] * 6
    )
    dataset = EpochsFolder(tmp_path)
    data = dataset.get_data([1])[1]
    assert list(data) == ["0training0", "1Test0", "2Test1"] and list(data["1Test0"]) == ["3", "1"]
    assert ordered_names(np.array(["1a", "1b"])) == {"1a": "0a", "1b": "1b"}
    X_moabb, _, _ = EpochsParadigm().get_data(dataset)
    order = np.lexsort((np.arange(12), np.arange(12) % 2, np.arange(12) // 4))
    np.testing.assert_allclose(X_moabb, (counts * np.array([1.0, 2.0, 3.0, 4.0])[:, None])[order][:, :3])


def test_the_code_changes_with_the_content(folder):
    before = EpochsFolder(folder).code
    assert before.startswith("EpochsFolder-") and EpochsFolder(folder).code == before
    _, y = standins.epochs(12, 4, 50, 3, 1)
    write(folder, 1, y=y[::-1])
    assert EpochsFolder(folder).code != before
    assert EpochsFolder(folder, code="MyStudy-2024").code == "MyStudy-2024"
    for code in ("my study", "Größe", "", 5):
        with pytest.raises(ValueError, match="use letters, digits and dashes, as in 'MyStudy-2024'"):
            EpochsFolder(folder, code=code)


def test_channels_that_differ(folder):
    write(folder, 3, ch_names=["Fz", "Oz", "Pz", "EOG1"])
    with pytest.raises(
        ValueError, match=r"subject_03\.npz has other eeg channels.*Cz, Oz.*channels='common'"
    ):
        EpochsFolder(folder)
    dataset = EpochsFolder(folder, channels="common")
    X, _, metadata = EpochsParadigm().get_data(dataset)
    expected, _ = standins.epochs(12, 4, 50, 3, 3)
    np.testing.assert_allclose(X[metadata["subject"] == 3], 1e6 * expected[:, [0, 2]], rtol=1e-9)
    assert EpochsFolder(folder, channels=["Pz"]).channels == ["Pz"]
    with pytest.raises(ValueError, match="channels: Cz not recorded in all subjects"):
        EpochsFolder(folder, channels=["Cz"])


def test_selecting_subjects_by_a_variable(folder):
    write(folder, 2, group="patient")
    write(folder, 1, group="control")
    write(folder, 3, group="control")
    assert EpochsFolder(folder, where={"group": "control"}).subject_list == [1, 3]
    with pytest.raises(ValueError, match=r"where=\{'group': 'x'\} leaves none"):
        EpochsFolder(folder, where={"group": "x"})
    with pytest.raises(ValueError, match=r"has no variable 'sex'"):
        EpochsFolder(folder, where={"sex": "x"})


@pytest.mark.parametrize("labels", [[2, 7, 9], ["rest", "left hand", "right hand"]])
def test_names_may_be_left_out(tmp_path, labels):
    bare = {"label_names": None, "ch_names": None, "ch_types": None}
    for subject in (1, 2):
        _, codes = standins.epochs(12, 4, 50, 3, subject)
        X, _ = write(tmp_path, subject, y=np.array(labels)[codes], **bare)
    record = read_subject(tmp_path / "subject_02.npz")
    assert [record.label_names[k] for k in record.y] == [str(labels[k]) for k in codes]
    assert record.ch_names == ["ch1", "ch2", "ch3", "ch4"] and record.ch_types == ["eeg"] * 4
    _, y, _ = EpochsParadigm().get_data(EpochsFolder(tmp_path))
    assert set(y) == {str(label) for label in labels}


def test_a_file_to_decode_needs_no_classes(tmp_path):
    X, _ = write(tmp_path, 1, y=None, label_names=None)
    np.testing.assert_array_equal(read_subject(tmp_path / "subject_01.npz", labels=False).X, X)
    with pytest.raises(ValueError, match="has no variable y"):
        read_subject(tmp_path / "subject_01.npz")


def _with_nan():
    X, _ = standins.epochs(12, 4, 50, 3, 2)
    X[7, 1, 30] = np.nan
    return X


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "has no variable y; needs X, y, sfreq, has "),
        ({"X": np.zeros((12, 50))}, r"X has shape \(12, 50\); expected \(trials, channels, samples\)"),
        ({"X": np.full((12, 4, 50), "a")}, "X has dtype <U1; expected real numbers"),
        ({"X": _with_nan()}, "X holds 1 samples .* trial 7, channel Cz, sample 30"),
        ({"y": np.arange(12.0) % 3}, "y has dtype float64; expected indices"),
        ({"y": np.arange(12)}, "y ranges from 0 to 11, there are 3 classes"),
        ({"y": np.zeros(11, int)}, "y has 11 entries, but X has 12 trials"),
        ({"ch_names": ["a", "b", "c"]}, "ch_names has 3 entries, but X has 4 channels"),
        ({"ch_names": ["a", "b", "c", "c"]}, "ch_names holds c more than once"),
        ({"ch_types": ["eeg"] * 3}, "ch_types has 3 entries, ch_names 4"),
        ({"ch_types": ["eeg"] * 3 + ["brain"]}, "ch_types holds brain; expected eeg, eog"),
        ({"ch_types": ["misc"] * 4}, r"other eeg channels than .* \(0 against 3"),
        ({"label_names": ["bad", "a", "b"]}, "label_names contains 'bad'; MNE rejects"),
        ({"label_names": ["a", "a", "b"]}, "label_names holds the same name twice"),
        ({"label_names": ["a", "b", "c"]}, "label_names .* differ from the other subjects'"),
        ({"scale": [1.0, 2.0]}, r"scale has shape \(2,\); expected one number per channel"),
        ({"session": ["0"] * 5}, "session has 5 entries, but X has 12 trials"),
        ({"sfreq": 0.0}, "sfreq=0.0 Hz; expected a rate"),
        ({"sfreq": 200.0}, "sfreq=(200|100)\\.0, but .* has (200|100)\\.0"),
        ({"tmin": 0.0}, "tmin=.*, but .* has"),
        ({"X": np.zeros((0, 4, 50)), "y": np.zeros(0, int)}, "X has 0 trials of 50 samples"),
        ({"X": np.full((12, 4, 50), None)}, "X.npy holds Python objects"),
        ({"X": np.full((12, 4, 50), 3.0)}, "all channels are constant in all trials"),
        ({"sfreq": [50.0, 60.0]}, r"sfreq has shape \(2,\), type float64; expected one number"),
        ({"sfreq": "fast"}, r"sfreq has shape \(\), type <U4; expected one number"),
        ({"sfreq": np.nan}, r"sfreq=nan Hz; expected a rate between 0\.1 and 100000 Hz"),
        ({"sfreq": 1e12}, r"sfreq=1000000000000\.0 Hz; expected a rate"),
        ({"tmin": 1e9}, r"tmin=1000000000\.0 s; expected at most 600 s from the event"),
        ({"label_names": ["left", "fist", "  "]}, r"label_names: .* must have 1 to 100 letters"),
        ({"label_names": ["left", "fist", "x" * 5000]}, r"label_names: .* must have 1 to 100 letters"),
    ],
)
def test_a_bad_file_is_named(folder, changes, message):
    write(folder, 2, **changes)
    with pytest.raises(ValueError, match=message) as error:
        EpochsFolder(folder).get_data()
    assert "subject_0" in str(error.value) and len(str(error.value)) < 600


@pytest.mark.parametrize("keep", [0.99, 0.01])
def test_a_truncated_file_is_named(folder, keep):
    path = folder / "subject_02.npz"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(ValueError, match=r"subject_02\.npz cannot be read .*truncated"):
        EpochsFolder(folder)


def test_other_repeated_and_missing_files_are_named(folder, tmp_path):
    for name, message in (
        ("subject_1.npz", "subject 1 is there twice"),
        ("subject_04.npz", r"subject_01\.npz and .*subject_04\.npz hold the same trials"),
        ("averages.npz", r"averages\.npz is not called subject_XX\.npz"),
    ):
        shutil.copy(folder / "subject_01.npz", folder / name)
        with pytest.raises(ValueError, match=message):
            EpochsFolder(folder)
        (folder / name).unlink()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds neither subject_XX"):
        EpochsFolder(tmp_path / "empty")
    with pytest.raises(ValueError, match="nowhere' does not exist"):
        EpochsFolder(tmp_path / "nowhere")
    write(tmp_path / "empty", 1, ch_types=["misc"] * 4)
    with pytest.raises(ValueError, match=r"subject_01\.npz: ch_types has none of eeg, ecog, emg, seeg"):
        EpochsFolder(tmp_path / "empty")


def test_epochs_folder_arrays_are_the_trials_of_the_paradigm(folder):
    write(folder, 3, ch_names=["Pz", "Oz", "Fz", "EOG1"], label_names=["point", "fist", "rest"])
    dataset = EpochsFolder(folder, channels="common")
    X, y, subjects = dataset.arrays(dtype=float)
    expected, labels, metadata = EpochsParadigm().get_data(dataset)
    np.testing.assert_allclose(X, expected, rtol=1e-9)
    assert [dataset.class_names[k] for k in y] == list(labels)
    np.testing.assert_array_equal(subjects, metadata["subject"])
    X, _, subjects = dataset.arrays([2])
    assert X.dtype == np.float32 and set(subjects) == {2}


def test_save_subject_makes_its_folder_and_needs_no_names(tmp_path):
    X, y = standins.epochs(6, 2, 20, 2, 0)
    path = tmp_path / "new" / "study" / "subject_01.npz"
    save_subject(path, X, y, sfreq=50, ch_types="emg")
    record = read_subject(path)
    np.testing.assert_allclose(record.X, X)
    assert record.ch_names == ["ch1", "ch2"] and record.ch_types == ["emg", "emg"]
    assert record.label_names == ["0", "1"] and record.tmin == 0 and record.n_times == 20


def test_rsvp(rsvp_folder, tmp_path):
    folder, truth = rsvp_folder
    dataset = RSVP(folder)
    assert dataset.subject_list == list(range(1, 11)) and dataset.n_sessions == 2 and dataset.code == "RSVP"
    X, y, _ = ERP().get_data(dataset, subjects=[3])
    np.testing.assert_allclose(X, 1e6 * truth[3][0], atol=0.01)  # integers of 16 bits
    assert list(y) == ["Target" if label else "NonTarget" for label in truth[3][1]]
    target = shutil.copytree(folder, tmp_path / "rsvp")
    (target / "subject_07.npz").unlink()
    with pytest.raises(
        ValueError, match=r"is not RSVP: subjects should be \[1, 2, .*found \[1, 2, 3, 4, 5, 6, 8"
    ):
        RSVP(target)


@pytest.mark.parametrize("cls", [RSVP, ASLEMG])
def test_recordings_without_a_release_explain_themselves(cls, tmp_path):
    dataset = cls()
    assert not dataset.is_local() and len(dataset.subject_list) == 10
    with pytest.raises(
        ValueError, match=f"{cls.__name__}: no subject_XX.npz .*no public release.*save_subject"
    ):
        dataset.get_data([1])
    with pytest.raises(ValueError, match=f"MNE_DATASETS_{cls.__name__.upper()}_PATH"):
        cls(tmp_path)
    write(tmp_path, 1)
    with pytest.raises(ValueError, match=f"is not {cls.__name__}: n_chans should be 16, found 3"):
        cls(tmp_path)
