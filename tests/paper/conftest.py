import pytest
from browser import browser, opened  # noqa: F401
from figures.finished import finished


@pytest.fixture(scope="session")
def folder():
    return finished()
