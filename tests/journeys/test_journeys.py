"""Five newcomers with their own data, and README's code with a few words changed."""

from pathlib import Path

import pytest
from docs.runner import run_script

HERE = Path(__file__).parent
JOURNEYS = ("braindecode_user", "moabb_user", "practitioner", "reader_of_the_paper", "torch_user")


@pytest.mark.parametrize("name", JOURNEYS)
def test_journey(name, tmp_path):
    run = run_script(HERE / f"{name}.py", tmp_path, timeout=280, figures=["results"])
    assert run.code == 0, run.output[-3000:]
