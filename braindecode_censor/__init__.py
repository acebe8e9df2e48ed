"""Censoring penalties that make a decoder work on subjects it has never seen.

Every public name is imported when it is first used, because Braindecode, MOABB and MNE take seconds to import, and
the penalties need nothing but torch.
"""

from importlib import import_module

from braindecode_censor._version import __version__

# Public name -> module that defines it.
_MODULES = {
    "AutoTransfer": "paper.experiment",
    "AutoTransferClassifier": "decoder.classifier",
    "CensoredEEGClassifier": "training.classifier",
    "LiveDecoder": "live.decoder",
    "replay": "live.replay",
    "CensoredLoss": "penalties.loss",
    "Censor": "training.callback",
    "FastEEGNet": "encoders.eegnet",
    "PAPER": "training.arguments",
    "Penalty": "penalties.penalty",
    "SubjectNormalizer": "trials.normalize",
    "make_penalty": "penalties.factory",
    "make_score": "numerics.scores",
    "register": "datasets.registry",
}

__all__ = ["__version__", *_MODULES]


def __getattr__(name):
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_MODULES})
