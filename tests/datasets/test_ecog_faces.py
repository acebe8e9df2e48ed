"""ECoGFaces: both .mat formats, every picture to the sample, damaged files named."""

import shutil
import zipfile

import numpy as np
import pytest
import standins

from braindecode_censor.datasets import ECoGFaces
from braindecode_censor.datasets.ecog_faces import SUBJECTS, VOLTS


def number(name):
    return SUBJECTS.index(name) + 1


def test_ecog_faces_reads_all_fourteen_subjects(tmp_path):
    """At full length, MATLAB 5 and 7.3 in turn; ha has glitches, rr fewer trials."""
    assert len(SUBJECTS) == 14
    for k, name in enumerate(SUBJECTS):
        truth = standins.write_ecog(tmp_path, [name], v73=SUBJECTS[1::2], n_chans=2 + k % 3)
        onsets, codes, data = truth[name]
        raw = ECoGFaces(tmp_path, n_chans=2).get_data([k + 1])[k + 1]["0"]["0"]
        np.testing.assert_array_equal(np.round(raw.annotations.onset * 1000), onsets)
        assert list(raw.annotations.description) == ["face" if code > 50 else "house" for code in codes]
        assert len(onsets) == (200 if name == "rr" else 300)
        assert raw.info["sfreq"] == 1000 and raw.get_channel_types() == ["ecog"] * 2
        np.testing.assert_allclose(raw.get_data(), data.T[:2] * VOLTS, rtol=1e-6)
        shutil.rmtree(tmp_path / "faces_basic")


def test_channel_counts_differ_between_subjects(ecog_folder):
    folder, truth = ecog_folder
    dataset = ECoGFaces(folder, n_chans=None)
    for name in ("aa", "ap", "ha", "rr"):
        raw = dataset._get_single_subject_data(number(name))["0"]["0"]
        assert len(raw.ch_names) == truth[name][2].shape[1]
    assert dataset.code == "ECoGFaces-allch" != ECoGFaces(folder).code  # MOABB's caches must not mix them
    with pytest.raises(ValueError, match=r"aa_faceshouses\.mat: data has 33 channels, fewer than n_chans=40"):
        ECoGFaces(folder, n_chans=40).get_data([1])
    with pytest.raises(ValueError, match="n_chans=0 selects no channel"):
        ECoGFaces(n_chans=0)


def test_locations(ecog_folder):
    locs, elcode = ECoGFaces(ecog_folder[0]).locations(number("ap"))
    assert locs.shape == (34, 3) and elcode.shape == (34,) and elcode[5] == 5


@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "folder"])
def test_a_local_zip_is_unpacked_for_the_selected_subjects(ecog_folder, tmp_path, is_zip):
    folder, truth = ecog_folder
    path = tmp_path / "faces_basic.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*.mat")):
            if file.name.startswith(("aa", "rr")):
                archive.write(file, file.relative_to(folder))
    dataset = ECoGFaces(path if is_zip else tmp_path)
    raw = dataset.get_data([number("rr")])[number("rr")]["0"]["0"]
    np.testing.assert_array_equal(np.round(raw.annotations.onset * 1000), truth["rr"][0])
    assert [p.name for p in tmp_path.rglob("*.mat")] == ["rr_faceshouses.mat"]
    with pytest.raises(ValueError, match=r"faces_basic\.zip holds 0 files called ha_faceshouses\.mat"):
        (tmp_path / "faces_basic" / "data" / "rr" / "rr_faceshouses.mat").unlink()
        dataset.get_data([number("ha")])


@pytest.fixture
def small(tmp_path):
    """Return a function that writes subject aa with few channels and the given changes."""

    def write(v73=False, **changes):
        stim, _, _ = standins.ecog_stim("aa")
        data = np.zeros((len(stim), 3), np.float32)
        variables = {"data": data, "stim": stim[:, None].copy(), "srate": np.array([[1000.0]])}
        variables |= {key: change(variables[key]) for key, change in changes.items()}
        target = tmp_path / "aa_faceshouses.mat"
        standins.write_mat(target, {k: v for k, v in variables.items() if v is not None}, v73)
        return target

    return write


def _set(index, value, dtype=None):
    def change(array):
        array = array.astype(dtype or array.dtype)
        array[index] = value
        return array

    return change


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stim": lambda s: None}, "has no variable stim; expected data, stim, srate"),
        ({"data": _set((70, 2), np.nan)}, "data holds 1 samples that are NaN.*channel column 2, sample 70"),
        ({"data": lambda d: d.astype(np.complex64)}, "data has dtype complex64; expected"),
        ({"stim": _set((70, 0), 120)}, "stim is 120 at sample 70; expected 0 to 101"),
        ({"stim": lambda s: s[:-5]}, r"stim has \d+ samples, data \d+\."),
        ({"srate": lambda s: s / 2}, "srate is 500; expected 1000 Hz"),
        ({"stim": _set(slice(5400, 5500), 3)}, "picture .* samples from sample .*; expected 400"),
        ({"stim": _set(slice(6100, 6900), 101)}, "expected 150 of each"),
    ],
    ids=["missing", "nan", "complex", "code", "length", "rate", "short", "count"],
)
def test_a_bad_variable_is_named(small, changes, message):
    path = small("stim" in changes, **changes)
    with pytest.raises(ValueError, match=message) as error:
        ECoGFaces(path.parent, n_chans=3).get_data([1])
    assert "aa_faceshouses.mat" in str(error.value)


def test_strict_false_accepts_other_numbers_of_trials(small):
    raw = ECoGFaces(small(stim=_set(slice(6100, 6900), 101)).parent, n_chans=3, strict=False).get_data([1])[1]
    assert len(raw["0"]["0"].annotations) == 299


@pytest.mark.parametrize("v73", [False, True], ids=["v5", "v7.3"])
@pytest.mark.parametrize("keep", [0.9, 0.0005])
def test_a_truncated_file_is_named(small, keep, v73):
    path = small(v73)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(ValueError, match=r"aa_faceshouses\.mat.*(truncated|damaged|no variable)"):
        ECoGFaces(path.parent, n_chans=3).get_data([1])


def test_missing_repeated_and_damaged_files_are_named(small, tmp_path):
    path = small()
    with pytest.raises(ValueError, match=r"ap_faceshouses\.mat is missing in"):  # and not downloaded
        ECoGFaces(tmp_path).get_data([2])
    (tmp_path / "copy").mkdir()
    shutil.copy(path, tmp_path / "copy")
    with pytest.raises(ValueError, match=r"aa_faceshouses\.mat is there twice"):
        ECoGFaces(tmp_path).get_data([1])
    with zipfile.ZipFile(tmp_path / "faces_basic.zip", "w") as archive:
        archive.writestr("data/ap/ap_faceshouses.mat", bytes(10000))
    (tmp_path / "faces_basic.zip").write_bytes((tmp_path / "faces_basic.zip").read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"faces_basic\.zip is truncated, damaged, .* or not a zip archive"):
        ECoGFaces(tmp_path).get_data([2])
