import shutil

import pytest
from browser import browser, opened  # noqa: F401
from docs.runner import ROOT, run_script
from shared import once

GENERATED = shutil.ignore_patterns("_build", "gallery", "generated", "__pycache__")


@pytest.fixture(scope="session")
def html():
    """The pages, without the examples' results; ``log`` beside them is what Sphinx said."""
    return once("docs_build", _build) / "html"


def _build(folder):
    """Build from a copy, so that nothing is left behind."""
    for name in ("docs", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=GENERATED)
    for path in [*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/README.md")]:
        (folder / path.relative_to(ROOT)).parent.mkdir(exist_ok=True)
        shutil.copy(path, folder / path.relative_to(ROOT))
    script = folder / "build.py"
    script.write_text("import sys\nfrom sphinx.cmd.build import main\nsys.exit(main(sys.argv[1:]))\n")
    options = ["-q", "-W", "--keep-going", "-D", "plot_gallery=0", "-b", "html"]
    built = run_script(script, folder, 240, [*options, folder / "docs", folder / "html"])
    (folder / "log").write_text(f"{built.code}\n{built.output}")
