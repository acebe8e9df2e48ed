"""Hold every public docstring to numpydoc; run by ``make lint`` and, as a test, by ``make test``.

Usage: ``python tests/project/validate_docstrings.py``
"""

import importlib
import inspect
import pkgutil
import sys
import warnings

from numpydoc.validate import validate

import braindecode_censor

# Summary present and one line, parameters complete, in order and described, returns described.
CHECKS = {"GL03", "GL06", "GL07", "GL08", "SS01", "SS04", "PR01", "PR02", "PR03", "PR04", "PR07", "RT03"}


def modules():
    """Yield every module of the package."""
    yield braindecode_censor
    for info in pkgutil.walk_packages(braindecode_censor.__path__, "braindecode_censor."):
        if not info.name.rsplit(".", 1)[-1].startswith("_"):
            yield importlib.import_module(info.name)
    import braindecode_censor.datasets as datasets

    for info in pkgutil.walk_packages(datasets.__path__, "braindecode_censor.datasets."):
        if not info.name.rsplit(".", 1)[-1].startswith("_"):
            yield importlib.import_module(info.name)


def public_names(module):
    """Yield the dotted names of what the module defines for users."""
    for name, thing in vars(module).items():
        defined_here = getattr(thing, "__module__", None) == module.__name__
        if name.startswith("_") or not defined_here:
            continue
        if inspect.isfunction(thing) or inspect.isclass(thing):
            yield f"{module.__name__}.{name}"
        if inspect.isclass(thing):
            for attribute, member in vars(thing).items():
                if not attribute.startswith("_") and inspect.isfunction(member):
                    yield f"{module.__name__}.{name}.{attribute}"


def find_complaints():
    """Return every complaint, and the names that were checked."""
    # MNE says this about Braindecode, whose modules are imported on the way.
    warnings.filterwarnings("ignore", message="Montage name .* is deprecated", category=FutureWarning)
    found = list(modules())
    complaints = [f"{module.__name__}: no docstring" for module in found if not module.__doc__]
    names = sorted({name for module in found for name in public_names(module)})
    for name in names:
        errors = validate(name)["errors"]
        complaints += [f"{name}: {code} {message}" for code, message in errors if code in CHECKS]
    return complaints, names


def main():
    """Print every complaint and return their number."""
    complaints, names = find_complaints()
    print("\n".join(complaints) or f"{len(names)} docstrings are in order.")
    return len(complaints)


if __name__ == "__main__":
    sys.exit(main() > 0)
