"""Every file of a finished folder, damaged in every way: replaced or refused, never silently different.

``ATTACKS=20 python -m pytest tests/robustness`` resumes after every damage; the short version resumes after some.
"""

import itertools
import os
import random
import shutil

import pandas as pd
import pytest
from tiny import copy_of, finished, run

from braindecode_censor.paper.result import read_result
from braindecode_censor.paper.tables import read_index

ATTACKS = int(os.environ.get("ATTACKS", "2"))
TABLES = ("scores.csv", "table.csv", "search.csv", "selected.json")


def flip(content):
    """Flip one bit in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def change_digits(content):
    """Turn every 5 into a 6, as by a slip in an editor."""
    changed = content.replace(b"5", b"6")
    return changed if changed != content else content.replace(b"0", b"1")


DAMAGES = {
    "flipped": flip,
    "truncated": lambda content: content[: len(content) // 2],
    "one byte short": lambda content: content[:-1],
    "empty": lambda content: b"",
    "digits": change_digits,
    "foreign": lambda content: b"\x89PNG\r\n\x1a\n" + bytes(100),
    "missing": None,
}
# One file of each kind; the search has trained configurations that no fold of the cross-validation uses.
KINDS = (
    "experiment.json",
    "SHA256SUMS",
    "scores.csv",
    "table.csv",
    "search.csv",
    "selected.json",
    "trainings/index.csv",
    "trainings/log.jsonl",
    "trainings/FOLD.training",
    "trainings/SEARCH.training",
    "moabb/RESULTS.hdf5",
)
CASES = [(kind, damage) for kind in KINDS for damage in DAMAGES]
RESUMED = CASES if ATTACKS > 10 else random.Random(4).sample(CASES, 5 * ATTACKS)


@pytest.fixture
def folder(reference, tmp_path):
    return copy_of(reference.out, tmp_path / "out")


def find(out, kind):
    """Return a file of a kind."""
    if kind.endswith("hdf5"):
        return next(out.glob("moabb/**/*.hdf5"))
    index = read_index(out)["key"].tolist()
    fold, search = index[-1], next(key for key in finished(out) if key not in index)
    return out / kind.replace("FOLD", fold).replace("SEARCH", search)


def damage_file(path, damage):
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
        return
    changed = DAMAGES[damage](content)
    assert changed != content
    path.write_bytes(changed)


def outcome(call, reference):
    """Return "same", or the message of an error of this package; anything else fails."""
    try:
        result = call()
    except (ValueError, OSError) as error:
        message = str(error)
        assert "autotransfer" in message or "restore" in message or "another folder" in message, message
        return message
    assert result.selected == reference.selected
    pd.testing.assert_frame_equal(result.scores, reference.scores)
    pd.testing.assert_frame_equal(result.table, reference.table)
    return "same"


def test_kinds_are_all_files(reference):
    listed = {find(reference.out, kind) for kind in KINDS}
    files = {path for path in reference.out.rglob("*") if path.is_file() and path.name != ".lock"}
    assert {path.parent.name for path in files - listed} == {"trainings"}
    endings = {path.suffix for path in (reference.out / "trainings").iterdir()}
    assert endings == {".training", ".jsonl", ".csv"}


DECIDING = ("experiment.json", "scores.csv", "SHA256SUMS")
OTHERS = [kind for kind in KINDS if kind not in DECIDING]


def report_on(reference, path, kinds, damage):
    """Return the outcome of a report on a copy in which files of these kinds are damaged."""
    out = copy_of(reference.out, path)
    for file in [find(out, kind) for kind in kinds]:  # A damaged file may hide another one.
        damage_file(file, damage)
    result = outcome(lambda: read_result(out, report=False), reference)
    shutil.rmtree(out)
    return result


@pytest.mark.parametrize("kind", DECIDING)
def test_report_on_a_damaged_folder_is_the_same_or_refused(kind, reference, tmp_path):
    for damage in DAMAGES:
        result = report_on(reference, tmp_path / damage, [kind], damage)
        assert result != "same" or kind == "SHA256SUMS", damage


def test_report_needs_no_other_file(reference, tmp_path):
    """Each kind of file is damaged in one way by itself, and all together in every way."""
    for damage in DAMAGES:
        assert report_on(reference, tmp_path / damage, OTHERS, damage) == "same", damage
    for kind, damage in zip(OTHERS, itertools.cycle(DAMAGES)):
        assert report_on(reference, tmp_path / damage, [kind], damage) == "same", (kind, damage)


@pytest.mark.parametrize(("kind", "damage"), RESUMED)
def test_damaged_folder_is_resumed_or_refused(kind, damage, folder, reference):
    before = finished(folder)
    damage_file(find(folder, kind), damage)
    result = outcome(lambda: run(folder), reference)
    if kind == "experiment.json":
        assert result != "same"
        return
    assert result == "same", result
    for name in TABLES:
        assert (folder / name).read_bytes() == (reference.out / name).read_bytes(), name
    if kind.endswith(".training"):
        assert len(finished(folder)) == len(before) + 1, "only the damaged one is trained again"


def test_exchanged_files_of_two_trainings_are_trained_again(folder, reference):
    keys = read_index(folder)["key"][[0, 9]]
    one, two = (folder / "trainings" / f"{key}.training" for key in keys)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    before = len(finished(folder))
    assert outcome(lambda: run(folder), reference) == "same"
    assert len(finished(folder)) == before + 2
