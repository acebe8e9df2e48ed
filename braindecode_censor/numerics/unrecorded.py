"""Calls for which the host waits, within work on a GPU that is recorded otherwise."""

from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["current_recording", "recorded_by", "unrecorded"]

_recording = ContextVar("recording", default=None)


def unrecorded(function, *tensors):
    """Call a function that makes the host wait for the device.

    A CUDA graph cannot hold such a call. A recording that is being made is interrupted for it: the host makes the call
    whenever the recording is replayed, between what was recorded before and after it.

    Parameters
    ----------
    function : callable
        From tensors to a tuple of tensors, whose shapes depend on nothing but the shapes of the arguments.
    *tensors : Tensor
        Its arguments, without gradients and not within ``vmap``.

    Returns
    -------
    results : tuple of Tensor
        What the function returns.
    """
    recording = current_recording()
    return function(*tensors) if recording is None else recording.interrupt(function, *tensors)


def current_recording():
    """Return the recording that is being made."""
    return _recording.get()


@contextmanager
def recorded_by(recording):
    """Say who records the work within this context."""
    token = _recording.set(recording)
    try:
        yield
    finally:
        _recording.reset(token)
