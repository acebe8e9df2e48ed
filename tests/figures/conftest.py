import pytest
from figures.finished import finished

from braindecode_censor.figures.folder import read_results


@pytest.fixture(scope="session")
def results():
    return read_results(finished())
