"""Measures of the dependence between a latent code and a nuisance."""

from braindecode_censor.penalties.measures.adversary import Adversary
from braindecode_censor.penalties.measures.base import Measure
from braindecode_censor.penalties.measures.began import BEGAN
from braindecode_censor.penalties.measures.mige import MIGE
from braindecode_censor.penalties.measures.mmd import MMD, PairMMD

__all__ = ["BEGAN", "MEASURES", "MIGE", "MMD", "Adversary", "Measure", "PairMMD"]

#: Name -> class; register a new one with ``MEASURES["name"] = MyMeasure``.
MEASURES = {"adv": Adversary, "mige": MIGE, "mmd": MMD, "pairmmd": PairMMD, "began": BEGAN}
