"""Trials and whose they are: data sets, labels, splits and batches."""

from braindecode_censor import _braindecode  # noqa: F401 - before all that imports Braindecode
