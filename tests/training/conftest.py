import pytest

from braindecode_censor import PAPER


@pytest.fixture
def paper(quick):
    return {**PAPER, **quick}
