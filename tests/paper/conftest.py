import pytest
from browser import browser, opened  # noqa: F401
from figures.finished import claim, few_figures, finished, spoilt
from shared import once

from braindecode_censor.paper.result import read_result
from braindecode_censor.paper.tables import INDEX, read_table, write_table

EVIL = "<script>document.title='owned'</script>"


@pytest.fixture(scope="session")
def folder():
    """A finished experiment, to be read only."""
    return finished()


@pytest.fixture(scope="session")
def evil():
    """The same with a dataset and a subject that are called like a script."""
    return once("evil", _make_evil)


def _make_evil(path):
    spoilt(path, _rename)
    for name in ("probes/gains.csv", "probes/leakage.csv", "probes/codes.csv", "probes/cells.csv", INDEX):
        write_table(path, name, _rename(read_table(path, name)))
    claim(path, dataset_code=EVIL, classes=[EVIL, "plain"])
    with few_figures("results", "codes"):
        read_result(path)


def _rename(frame):
    for column in {"subject", "valid_subject"} & set(frame.columns):
        frame[column] = [EVIL if value == 3 else str(value) for value in frame[column]]
    return frame
