"""Do the examples in the docstrings run?"""

import doctest

import pytest
from project.validate_docstrings import modules

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.filterwarnings("ignore")
def test_doctests():
    results = [doctest.testmod(module, optionflags=OPTIONS) for module in modules()]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) > 20
