"""A fleet: many trainings as one, with parameters, batch statistics, optimisers and critics in one stack."""

from braindecode_censor.fleet.engine import train_fleet
from braindecode_censor.fleet.replica import Replica

__all__ = ["Replica", "train_fleet"]
