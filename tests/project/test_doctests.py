"""Docstrings of public names are complete, and the examples in all docstrings run."""

import doctest

import pytest
from project.validate_docstrings import find_complaints, modules

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.filterwarnings("ignore")
def test_every_public_docstring_is_complete():
    complaints, names = find_complaints()
    assert complaints == []
    assert len(names) > 60


@pytest.mark.filterwarnings("ignore")
def test_doctests():
    results = [doctest.testmod(module, optionflags=OPTIONS) for module in modules()]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) > 20
