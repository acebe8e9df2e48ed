"""Training one decoder: the callback, the estimator and the rules of the protocol."""

from braindecode_censor import _braindecode  # noqa: F401 - before all that imports Braindecode
