"""A fleet: many trainings as one on a GPU, with parameters, statistics, optimisers and critics in one stack."""

from braindecode_censor.fleet.engine import train_fleet
from braindecode_censor.fleet.replica import Replica

__all__ = ["Replica", "train_fleet"]

from braindecode_censor import _braindecode  # noqa: F401 - before all that imports Braindecode
