"""Import Braindecode without MOABB: Braindecode takes two docstrings from it, whose import takes longer than its own.

The packages that use Braindecode import this module first. MOABB is a soft dependency of Braindecode, which leaves out
the docstrings; ``import moabb`` works afterwards as always.
"""

import sys
import warnings

hides_moabb = "braindecode" not in sys.modules and "moabb" not in sys.modules
if hides_moabb:
    sys.modules["moabb"] = None  # as if it were not installed
try:
    with warnings.catch_warnings(
        action="ignore", category=FutureWarning
    ):  # of its own imports, also in workers
        import braindecode  # noqa: F401
finally:
    if hides_moabb:
        del sys.modules["moabb"]
