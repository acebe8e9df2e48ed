"""Recorded launches: on a GPU a step is a thousand tiny kernels, and launching them is what costs.

A CUDA graph replays all kernels of a step by one call of the host. Within it the penalties of different groups run side
by side: none of them fills the device. Where the host has to wait for the device, as for a decomposition, the recording
is interrupted, and goes on as another graph.
"""

import gc
from contextlib import contextmanager
from functools import lru_cache

import torch

from braindecode_censor.numerics.unrecorded import current_recording, recorded_by

__all__ = ["Recorder", "Recording", "fork", "run_side_by_side"]

_N_STREAMS = 16  # more do not help


def run_side_by_side(recorders, inputs):
    """Call functions that do not depend on each other."""
    recordings = [recorder.find(given) for recorder, given in zip(recorders, inputs)]
    recorded = [k for k, recording in enumerate(recordings) if recording is not None]
    for k in recorded:
        recordings[k].take(inputs[k])
    streams = _streams(recordings[recorded[0]].device)[: len(recorded)] if recorded else []
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream(stream.device))
    for place, k in enumerate(recorded):
        with torch.cuda.stream(streams[place % len(streams)]):
            recordings[k].replay()
    # the host launches the others meanwhile, operation by operation
    results = [
        recorder.function(given) if recording is None else recording.outputs
        for recorder, recording, given in zip(recorders, recordings, inputs)
    ]
    for stream in streams:
        torch.cuda.current_stream(stream.device).wait_stream(stream)
    return results


def fork(functions, inputs):
    """Call functions that do not depend on each other, side by side in the recording that is being made."""
    recording, results = current_recording(), []
    recording.branches = _streams(recording.device)[: len(functions)]
    recording.branch_off()
    for k, (function, given) in enumerate(zip(functions, inputs)):
        with torch.cuda.stream(recording.branches[k % len(recording.branches)]):
            results.append(function(given))
    recording.join()
    recording.branches = []
    return results


@lru_cache
def _streams(device):
    return [torch.cuda.Stream(device) for _ in range(_N_STREAMS)]


class Recorder:
    """Decides when a function is recorded, and keeps the recordings, one for each shape of its arguments.

    The first call of a shape runs as usual, which also sets up the libraries it needs; the second is recorded.
    """

    def __init__(self, function, able=True):
        self.function, self.able = function, able
        self.recordings = {}

    def __call__(self, inputs):
        """Call the function, by a recording where there is one."""
        return run_side_by_side([self], [inputs])[0]

    def find(self, inputs):
        """Return the recording for arguments of this shape."""
        if not (self.able and all(tensor.is_cuda for tensor in inputs.values())):
            return None
        shapes = tuple(tensor.shape for tensor in inputs.values())
        if shapes not in self.recordings:
            self.recordings[shapes] = None
        elif self.recordings[shapes] is None:
            self.recordings[shapes] = Recording(self.function, inputs)
        return self.recordings[shapes]

    def clear(self):
        """Forget all recordings, with their memory."""
        self.recordings.clear()


class Recording:
    """One call of a function as a CUDA graph, or as several with calls of the host between them."""

    def __init__(self, function, inputs):
        self.inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        self.device = next(iter(inputs.values())).device
        self.graphs, self.calls = [], []
        self.stream, self.branches = torch.cuda.Stream(self.device), []
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream), _by_itself(), recorded_by(self):
            self._begin_graph()
            try:
                self.outputs = dict(function(dict(self.inputs)))
                for name, tensor in self.inputs.items():  # next values to where the next replay reads them
                    if name in self.outputs:
                        if self.outputs[name] is not tensor:
                            tensor.copy_(self.outputs[name])
                        self.outputs[name] = tensor
            finally:
                if torch.cuda.is_current_stream_capturing():  # unless a call of the host has failed
                    self.graphs[-1].capture_end()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def _begin_graph(self):
        # cuBLAS keeps a workspace for each stream. One that another recording has made would be written by both at a
        # time, and go with the other; so this recording makes its own, and leaves it to nobody.
        torch._C._cuda_clearCublasWorkspaces()
        self.graphs.append(torch.cuda.CUDAGraph())
        self.graphs[-1].capture_begin(self.graphs[0].pool() if self.calls else None)

    def interrupt(self, function, *tensors):
        """Leave a call to the host, see :func:`~braindecode_censor.numerics.unrecorded.unrecorded`."""
        with torch.cuda.stream(self.stream):
            self.join()
            before = self.graphs[-1]
            before.capture_end()
            before.replay()  # recording computes nothing, and the function may refuse what is not a number
            results = function(*tensors)
            self.calls.append((function, tensors, results))
            self._begin_graph()
            self.branch_off()
        return results

    def branch_off(self):
        """Let calls that run side by side wait for what was recorded before them."""
        for branch in self.branches:
            branch.wait_stream(self.stream)

    def join(self):
        """Let what is recorded from now on wait for calls that run side by side."""
        for branch in self.branches:
            self.stream.wait_stream(branch)

    def replay(self):
        """Do it again, on the current stream."""
        self.graphs[0].replay()
        for graph, (function, tensors, results) in zip(self.graphs[1:], self.calls):
            torch._foreach_copy_(results, function(*tensors))
            graph.replay()

    def take(self, inputs):
        """Put arguments where the next replay reads them."""
        new = [name for name, tensor in inputs.items() if tensor is not self.inputs[name]]
        torch._foreach_copy_([self.inputs[name] for name in new], [inputs[name] for name in new])


@contextmanager
def _by_itself():
    """Let a recording neither wait for the device nor use memory that is not its own."""
    collects, library = gc.isenabled(), torch.backends.cuda.preferred_linalg_library()
    gc.disable()  # an old recording that the collector finds is given back there and then
    torch.backends.cuda.preferred_linalg_library("cusolver")  # MAGMA, else taken for large batches, waits
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()
        torch.backends.cuda.preferred_linalg_library(library)
        if collects:
            gc.enable()
