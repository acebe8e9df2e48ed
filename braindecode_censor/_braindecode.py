"""Import Braindecode without MOABB: Braindecode takes two docstrings from it, whose import takes longer than its own.

The packages that use Braindecode import this module first. MOABB is a soft dependency of Braindecode, which leaves out
the docstrings; ``import moabb`` works afterwards as always.
"""

import sys

if "braindecode" not in sys.modules and "moabb" not in sys.modules:
    sys.modules["moabb"] = None  # as if it were not installed
    try:
        import braindecode  # noqa: F401
    finally:
        del sys.modules["moabb"]
