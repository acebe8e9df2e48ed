import pandas as pd
import pytest
from figures.finished import finished, spoilt

from braindecode_censor.autotransfer.result import read_result

EVIL = "<script>document.title='owned'</script>"


@pytest.fixture(scope="session")
def folder():
    """A finished experiment, to be read only."""
    return finished()


@pytest.fixture(scope="session")
def evil(tmp_path_factory):
    """The same with a dataset and a subject that are called like a script."""
    path = spoilt(tmp_path_factory.mktemp("evil") / "out", lambda scores: _rename(scores))
    for name in ("gains", "leakage", "codes", "cells"):
        file = path / "probes" / f"{name}.csv"
        _rename(pd.read_csv(file)).to_csv(file, index=False)
    file = path / "trainings" / "index.csv"
    _rename(pd.read_csv(file)).to_csv(file, index=False)
    file = path / "experiment.json"
    code = file.read_text().split('"dataset_code": "')[1].split('"')[0]
    file.write_text(file.read_text().replace(code, EVIL))
    read_result(path)
    return path


def _rename(frame):
    for column in {"subject", "valid_subject"} & set(frame.columns):
        frame[column] = [EVIL if value == 3 else str(value) for value in frame[column]]
    return frame
