"""Censoring penalties that make a decoder work on people it has never seen.

The pure-torch part (:func:`make_penalty`, :func:`make_score`, :class:`CensoredLoss`) needs nothing but torch
and is imported at once; what needs Braindecode, MOABB or MNE is imported when it is first used, because those
imports take seconds.
"""

from importlib import import_module

from braindecode_censor._version import __version__
from braindecode_censor.numerics.scores import make_score
from braindecode_censor.penalties.factory import make_penalty
from braindecode_censor.penalties.loss import CensoredLoss
from braindecode_censor.penalties.penalty import Penalty

# public name -> module that defines it, imported on first use
_LAZY = {
    "AutoTransfer": "paper.experiment",
    "AutoTransferClassifier": "decoder.classifier",
    "Censor": "training.callback",
    "CensoredEEGClassifier": "training.classifier",
    "FastEEGNet": "encoders.eegnet",
    "PAPER": "training.arguments",
    "SubjectNormalizer": "trials.normalize",
    "register": "datasets.registry",
}

__all__ = ["CensoredLoss", "Penalty", "__version__", "make_penalty", "make_score", *_LAZY]


def __getattr__(name):
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_LAZY})
