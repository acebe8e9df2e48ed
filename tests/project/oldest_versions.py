"""Print the oldest versions that pyproject.toml allows, as constraints for pip; used by ``make test-oldest``."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def oldest(text):
    """Return ``name==lowest`` of a requirement such as ``torch>=2.10,<2.15``."""
    requirement = Requirement(text)
    (lowest,) = [part for part in requirement.specifier if part.operator in (">=", "==")]
    return f"{requirement.name}=={lowest.version.removesuffix('.*')}"


def constraints():
    """Return one line per package that we need directly, tests and documentation excepted."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    more = project["optional-dependencies"]
    return [oldest(text) for text in (*project["dependencies"], *more["search"], *more["cluster"])]


if __name__ == "__main__":
    print("\n".join(constraints()))
