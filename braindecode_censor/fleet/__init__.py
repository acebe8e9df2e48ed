"""Many trainings as one: parameters, batch statistics, optimisers and critics of all members in one stack."""

from braindecode_censor.fleet.engine import train_fleet
from braindecode_censor.fleet.member import Member

__all__ = ["Member", "train_fleet"]
