"""Calls that make the CPU wait are left to the capture in progress. Real captures: tests/fleet/test_cuda.py."""

import pytest
import torch

from braindecode_censor.numerics.unrecorded import current_recording, recorded_by, unrecorded


class Capture:
    """Counts the calls that interrupt it."""

    n_calls = 0

    def interrupt(self, function, *tensors):
        self.n_calls += 1
        return function(*tensors)


def test_unrecorded_interrupts_the_capture_in_progress_only():
    x, capture = torch.arange(3.0), Capture()
    with pytest.raises(RuntimeError, match="no memory"), recorded_by(capture):
        assert current_recording() is capture
        assert torch.equal(unrecorded(lambda x: 2 * x, x), 2 * x)
        raise RuntimeError("no memory")
    assert current_recording() is None and capture.n_calls == 1
    assert torch.equal(unrecorded(lambda x: 2 * x, x), 2 * x) and capture.n_calls == 1
