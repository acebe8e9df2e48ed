"""Censoring penalties that make a decoder work on people it has never seen.

The pure-torch part (:func:`make_penalty`, :func:`make_score`, :class:`CensoredLoss`) needs nothing but torch
and is imported at once; what needs Braindecode, MOABB or MNE is imported when it is first used, because those
imports take seconds.
"""

from importlib import import_module

from braindecode_censor._version import __version__

# public name -> module that defines it, imported on first use
_LAZY = {}

__all__ = ["__version__", *_LAZY]


def __getattr__(name):
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_LAZY})
