"""Damaged, hostile and implausible files: an error that names the file, in bounded memory."""

import io
import re
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from braindecode_censor.datasets import EpochsFolder, read_subject, save_subject
from braindecode_censor.datasets._download import unpack


def record(**changes):
    X = np.random.default_rng(0).normal(size=(6, 2, 20))
    values = {"X": X, "y": [0, 1] * 3, "label_names": ["left", "right"], "sfreq": 50.0}
    return {**values, "ch_names": ["Fz", "Cz"], "ch_types": ["eeg", "eeg"], "tmin": 0.1, **changes}


@pytest.fixture
def path(tmp_path):
    save_subject(tmp_path / "subject_01.npz", **record(group="control", session=list("000111")))
    return tmp_path / "subject_01.npz"


def rewrite(path, change):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in change(members).items():
            archive.writestr(name, content)


def as_npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_any_flipped_byte_is_noticed_or_harmless(path):
    whole = read_subject(path)
    content = path.read_bytes()
    table = content.find(b"PK\x01\x02")  # where the table of contents begins
    positions = [*range(0, table, 11), *range(table, len(content), 2)]
    n_errors = 0
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 0x81
        path.write_bytes(damaged)
        try:
            copy = read_subject(path)
        except ValueError as error:
            n_errors += 1
            assert "subject_01.npz" in str(error)
        else:
            np.testing.assert_array_equal(copy.X, whole.X)
            np.testing.assert_array_equal(copy.session, whole.session)
            for name in ("sfreq", "tmin", "label_names", "ch_names", "extra"):
                assert getattr(copy, name) == getattr(whole, name)
    assert n_errors > 0.6 * len(positions)


def test_a_password_is_named(path):
    content = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag "encrypted" of every member
        for match in re.finditer(re.escape(mark), bytes(content)):
            content[match.start() + offset] |= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"subject_01\.npz cannot be read .*password"):
        read_subject(path)
    with pytest.raises(ValueError, match=r"subject_01\.npz is truncated, damaged, protected by a password"):
        unpack(path, path.parent / "out")


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("y.npy", b"nonsense" * 20, r"cannot be read \(the magic string is not correct"),
        ("notes.txt", b"hello", r"cannot be read \(.*magic"),
        ("y.npy", lambda y: y[:-8], r"cannot be read \(y\.npy should have 176 bytes, not 168\)"),
        ("X.npy", lambda X: X[:-8], r"cannot be read \(X\.npy should have 2048 bytes, not 2040\)"),
        (
            "notes.npy",
            as_npy(np.array([{}], dtype=object)),
            r"cannot be read \(notes\.npy holds Python objects",
        ),
        (
            "y.npy",
            as_npy(np.zeros(2**24, dtype=np.int64)),
            r"cannot be read \(y has 134217856 bytes, too many",
        ),
    ],
    ids=["nonsense", "text", "short-y", "short-X", "objects", "bomb"],
)
def test_read_subject_refuses_a_bad_member(path, member, content, message):
    rewrite(path, lambda m: m | {member: content(m[member]) if callable(content) else content})
    with pytest.raises(ValueError, match=r"subject_01\.npz.*" + message):
        read_subject(path)


def test_a_bomb_in_another_key_is_not_unpacked(path):
    """Zeros shrink a thousand times; these are few enough to be written quickly, and far too many to be read."""
    rewrite(path, lambda members: {**members, "bomb.npy": as_npy(np.zeros(2**23))})
    assert path.stat().st_size < 2**18
    tracemalloc.start()
    try:
        copy = read_subject(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**22
    assert copy.extra["group"] == "control" and "bomb" not in copy.extra


def test_epochs_folder_takes_32_bit_subject_numbers_only(tmp_path):
    save_subject(tmp_path / f"subject_{2**31 - 1}.npz", **record())
    assert list(EpochsFolder(tmp_path).get_data()) == [2**31 - 1]
    save_subject(tmp_path / f"subject_{2**31}.npz", **record())
    with pytest.raises(ValueError, match=rf"subject number {2**31} is too large for MOABB"):
        EpochsFolder(tmp_path)


_CONSTANT = record()["X"]
_CONSTANT[:, 1] = np.arange(6)[:, None]  # another constant in every trial


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_names": ["Left", "left "]}, "the classes 'Left', 'left ' differ in case or spaces only"),
        ({"X": _CONSTANT}, "the channels Cz are constant in all trials"),
        ({"X": record()["X"][:1], "y": [0]}, "The subjects 1 have one trial only: their scores are 0 or 1"),
    ],
)
def test_values_that_are_probably_a_mistake_are_warned_of(tmp_path, changes, message):
    save_subject(tmp_path / "subject_01.npz", **record(**changes))
    with pytest.warns(UserWarning, match=message):
        EpochsFolder(tmp_path).get_data()


def test_a_good_file_is_not_warned_of(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EpochsFolder(path.parent).get_data()
