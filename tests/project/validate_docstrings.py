"""Hold the docstrings of the names in docs/api.rst to numpydoc; run by ``make lint`` and, as a test, by ``make test``.

Usage: ``python tests/project/validate_docstrings.py``
"""

import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from pathlib import Path

from numpydoc.validate import validate

import braindecode_censor
import braindecode_censor.datasets

API = Path(__file__).parents[2] / "docs" / "api.rst"
# Summary present and one line, parameters complete, in order and described, returns described.
CHECKS = {"GL03", "GL06", "GL07", "GL08", "SS01", "SS04", "PR01", "PR02", "PR03", "PR04", "PR07", "RT03"}


def modules():
    """Yield every module of the package and of the datasets."""
    yield braindecode_censor
    for package in (braindecode_censor, braindecode_censor.datasets):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not info.name.rsplit(".", 1)[-1].startswith("_"):
                yield importlib.import_module(info.name)


def public_names():
    """Yield the dotted names of the documented functions, classes and their public methods."""
    for name in re.findall(r"^ +~?(braindecode_censor\.[\w.]+)$", API.read_text(), re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        obj = getattr(importlib.import_module(module), attribute)
        if inspect.isfunction(obj) or inspect.isclass(obj):
            yield name
        if inspect.isclass(obj):
            methods = [key for key, member in vars(obj).items() if inspect.isfunction(member)]
            # Skorch documents its hooks, such as on_epoch_end.
            yield from (f"{name}.{method}" for method in methods if not method.startswith(("_", "on_")))


def find_complaints():
    """Return every complaint, and the names that were checked."""
    # MNE warns so of Braindecode, whose modules are imported on the way.
    warnings.filterwarnings("ignore", message="Montage name .* is deprecated", category=FutureWarning)
    names = sorted(set(public_names()))
    errors = [(name, code, message) for name in names for code, message in validate(name)["errors"]]
    # Nested parameters such as penalty__<option> are keyword arguments.
    errors = [error for error in errors if error[1] in CHECKS and "__<option>" not in error[2]]
    return [f"{name}: {code} {message}" for name, code, message in errors], names


def main():
    """Print every complaint and return their number."""
    complaints, names = find_complaints()
    print("\n".join(complaints) or f"{len(names)} docstrings are in order.")
    return len(complaints)


if __name__ == "__main__":
    sys.exit(main() > 0)
