"""Changed tables and a changed experiment file are refused."""

import json
import subprocess

import pandas as pd
import pytest

from braindecode_censor.paper.identity import FORMAT, open_experiment, read_experiment
from braindecode_censor.paper.tables import (
    TableError,
    is_intact,
    read_index,
    read_table,
    write_table,
)

FRAME = pd.DataFrame({"setting": ["a", "b"], "score": [0.25, 1 / 3]})
IDENTITY = {"training": {"lr": 0.1}, "grid": [{"method": "mmd"}], "seeds": [0], "n_top": 1}


def test_a_table_comes_back_to_the_last_bit(tmp_path):
    assert read_index(tmp_path).empty
    write_table(tmp_path, "probes/scores.csv", FRAME)
    pd.testing.assert_frame_equal(read_table(tmp_path, "probes/scores.csv"), FRAME, check_exact=True)
    checked = subprocess.run(
        ["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True, timeout=10
    )
    assert checked.returncode == 0 and "probes/scores.csv: OK" in checked.stdout


@pytest.mark.parametrize("damage", ["edited", "truncated", "gone", "sums gone", "sums edited"])
def test_a_changed_table_is_refused(tmp_path, damage):
    write_table(tmp_path, "scores.csv", FRAME)
    path, sums = tmp_path / "scores.csv", tmp_path / "SHA256SUMS"
    {
        "edited": lambda: path.write_text(path.read_text().replace("0.25", "0.26")),
        "truncated": lambda: path.write_text(path.read_text()[:-5]),
        "gone": path.unlink,
        "sums gone": sums.unlink,
        "sums edited": lambda: sums.write_text("x" + sums.read_text()[1:]),
    }[damage]()
    message = "is missing" if damage == "gone" else "was changed after"
    with pytest.raises(TableError, match=f"{message}.*autotransfer resume"):
        read_table(tmp_path, "scores.csv")
    assert not is_intact(tmp_path, "scores.csv")


@pytest.fixture
def used(tmp_path):
    """A folder in which something was trained."""
    open_experiment(tmp_path, IDENTITY)
    write_table(tmp_path, "scores.csv", FRAME)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda content: content["identity"].update(training={"lr": 0.2}),
            "was changed after it was written",
        ),
        (lambda content: content["identity"].pop("n_top"), "was changed after it was written"),
        (lambda content: content["provenance"].update(python="2.7"), "was changed after it was written"),
        (lambda content: content.pop("sha256"), "was changed after it was written"),
        (lambda content: content["identity"].update(format=1), rf"is of format 1, .*format {FORMAT}"),
        (lambda content: content.clear(), "cannot be read"),
    ],
)
def test_edited_experiment_is_refused(used, change, message):
    path = used / "experiment.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    for call in (lambda: read_experiment(used), lambda: open_experiment(used, IDENTITY)):
        with pytest.raises(ValueError, match=message):
            call()


def test_missing_or_unreadable_experiment_is_refused(used):
    (used / "experiment.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="cannot be read"):
        open_experiment(used, IDENTITY)
    (used / "experiment.json").unlink()
    with pytest.raises(ValueError, match=r"holds files but no experiment\.json"):
        open_experiment(used, IDENTITY)
    with pytest.raises(ValueError, match="holds no experiment"):
        read_experiment(used)


def test_an_experiment_may_grow_and_not_shrink(used):
    started = read_experiment(used)["provenance"]
    more = {**IDENTITY, "seeds": [0, 1], "grid": [{"method": "adv"}, {"method": "mmd"}], "n_top": 2}
    open_experiment(used, more)
    content = read_experiment(used)
    assert content["identity"] == {"format": FORMAT, **more} and content["provenance"] == started
    with pytest.raises(ValueError, match=r"differs in grid, seeds, n_top.*can be added"):
        open_experiment(used, IDENTITY)
    with pytest.raises(ValueError, match=r"differs in training: there .*0\.1.*now .*0\.3"):
        open_experiment(used, {**more, "training": {"lr": 0.3}})
