import pytest
from figures.finished import finished

from braindecode_censor.figures.folder import read_results


@pytest.fixture(scope="session")
def results():
    """A finished experiment, to be read only."""
    return read_results(finished())
