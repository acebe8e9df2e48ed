"""Networks: the fast EEGNet and its layers, and the resolution of names."""

from braindecode_censor import _braindecode  # noqa: F401 - before all that imports Braindecode
