"""Does the Python on the pages that tell people what to type run, from top to bottom?"""

import pytest
from docs.runner import ROOT, python_blocks, run_script

PAGES = ["choosing_mode", "new_person", "quickstart", "recipe"]


@pytest.mark.parametrize("page", PAGES)
def test_page(page, tmp_path):
    script = tmp_path / f"{page}.py"
    script.write_text(python_blocks(ROOT / "docs" / f"{page}.md"))
    run = run_script(script, tmp_path)
    assert run.code == 0, run.output[-3000:]
