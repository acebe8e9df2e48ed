"""The decoder for a new subject: what AutoTransferClassifier fits, saves and adapts."""

from braindecode_censor import _braindecode  # noqa: F401 - before all that imports Braindecode
