import pytest

from braindecode_censor import PAPER


@pytest.fixture
def paper(quick):
    """The paper's protocol, kept short."""
    return {**PAPER, **quick}
