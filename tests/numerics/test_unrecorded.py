"""A call for which the host waits, with and without a recording; real recordings are in tests/fleet/test_cuda.py."""

import pytest
import torch

from braindecode_censor.numerics.unrecorded import current_recording, recorded_by, unrecorded


class Interrupted:
    """Stands for a recording: remembers what was left to the host, and makes the call."""

    def __init__(self):
        self.calls = []

    def interrupt(self, function, *tensors):
        self.calls.append(tensors)
        return function(*tensors)


def double(x):
    return (2 * x,)


def test_a_recording_is_asked_to_make_the_call_and_nobody_else():
    x, recording = torch.arange(3.0), Interrupted()
    assert torch.equal(unrecorded(double, x)[0], 2 * x) and current_recording() is None
    with recorded_by(recording):
        assert current_recording() is recording
        assert torch.equal(unrecorded(double, x)[0], 2 * x)
    unrecorded(double, x)
    assert len(recording.calls) == 1 and recording.calls[0][0] is x


def test_a_recording_that_fails_is_over():
    with pytest.raises(RuntimeError, match="no memory"), recorded_by(Interrupted()):
        raise RuntimeError("no memory")
    assert current_recording() is None
