"""Calls that make the CPU wait for the GPU, within a step that is captured as a CUDA graph."""

from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["current_recording", "recorded_by", "unrecorded"]

_capture = ContextVar("capture", default=None)


def unrecorded(function, *tensors):
    """Call a function that makes the CPU wait, outside of the CUDA graph that is being captured.

    A CUDA graph cannot hold such a call, so the graph is split in two and every replay makes the call in between.
    `function` maps tensors without gradient, not under ``vmap``, to tensors whose shapes depend on theirs alone.
    """
    capture = current_recording()
    return function(*tensors) if capture is None else capture.interrupt(function, *tensors)


def current_recording():
    """Return the capture in progress, or None."""
    return _capture.get()


@contextmanager
def recorded_by(recording):
    """Make `recording` the capture in progress within this context."""
    token = _capture.set(recording)
    try:
        yield
    finally:
        _capture.reset(token)
