import pytest
from browser import browser, opened  # noqa: F401
from docs.runner import ROOT


@pytest.fixture(scope="session")
def html():
    """The folder of the built pages."""
    folder = ROOT / "docs" / "_build" / "html"
    if not (folder / "index.html").is_file():
        pytest.skip("the pages are not built: `make docs` builds them")
    return folder
