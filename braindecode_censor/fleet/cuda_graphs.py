"""CUDA graphs of training steps.

A step on a GPU is a thousand tiny kernels, which take longer to launch than to run. A CUDA graph replays all of them by
one call of the CPU. Within it the penalties of different groups run side by side, because none of them fills the
device. Where the CPU has to wait for the device, as for a decomposition, the capture is interrupted and continues as
another graph.
"""

import gc
from contextlib import contextmanager
from functools import lru_cache

import torch

from braindecode_censor.numerics.unrecorded import current_recording, recorded_by

__all__ = ["CapturedFunction", "GraphCapture", "fork", "run_side_by_side"]

_N_STREAMS = 16  # More do not help.


def run_side_by_side(functions, inputs):
    """Call captured functions that do not depend on each other."""
    captures = [function.find(tensors) for function, tensors in zip(functions, inputs)]
    captured = [k for k, capture in enumerate(captures) if capture is not None]
    for k in captured:
        captures[k].copy_inputs(inputs[k])
    streams = _streams(captures[captured[0]].device)[: len(captured)] if captured else []
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream(stream.device))
    for i, k in enumerate(captured):
        with torch.cuda.stream(streams[i % len(streams)]):
            captures[k].replay()
    # Meanwhile the CPU launches the other functions, operation by operation.
    results = [
        function.function(tensors) if capture is None else capture.outputs
        for function, capture, tensors in zip(functions, captures, inputs)
    ]
    for stream in streams:
        torch.cuda.current_stream(stream.device).wait_stream(stream)
    return results


def fork(functions, inputs):
    """Call functions that do not depend on each other, side by side within the capture in progress."""
    capture, results = current_recording(), []
    capture.branches = _streams(capture.device)[: len(functions)]
    capture.branch_off()
    for k, (function, tensors) in enumerate(zip(functions, inputs)):
        with torch.cuda.stream(capture.branches[k % len(capture.branches)]):
            results.append(function(tensors))
    capture.join()
    capture.branches = []
    return results


@lru_cache
def _streams(device):
    return [torch.cuda.Stream(device) for _ in range(_N_STREAMS)]


class CapturedFunction:
    """A function with its captures, one for each shape of its arguments.

    The first call with a shape runs as usual and sets up the libraries it needs. The second is captured.
    """

    def __init__(self, function, enabled=True):
        self.function, self.enabled = function, enabled
        self.captures = {}

    def __call__(self, inputs):
        """Call the function, or replay its capture."""
        return run_side_by_side([self], [inputs])[0]

    def find(self, inputs):
        """Return the capture for arguments of this shape, or None."""
        if not (self.enabled and all(tensor.is_cuda for tensor in inputs.values())):
            return None
        shapes = tuple(tensor.shape for tensor in inputs.values())
        if shapes not in self.captures:
            self.captures[shapes] = None
        elif self.captures[shapes] is None:
            self.captures[shapes] = GraphCapture(self.function, inputs)
        return self.captures[shapes]

    def clear(self):
        """Free all captures and their memory."""
        self.captures.clear()


class GraphCapture:
    """One call of a function as a CUDA graph, or as several with calls of the CPU between them."""

    def __init__(self, function, inputs):
        self.inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        self.device = next(iter(inputs.values())).device
        self.graphs, self.calls = [], []
        self.stream, self.branches = torch.cuda.Stream(self.device), []
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream), _isolated(), recorded_by(self):
            self._begin_graph()
            try:
                self.outputs = dict(function(dict(self.inputs)))
                for name, tensor in self.inputs.items():  # The next replay reads its inputs there.
                    if name in self.outputs:
                        if self.outputs[name] is not tensor:
                            tensor.copy_(self.outputs[name])
                        self.outputs[name] = tensor
            finally:
                if torch.cuda.is_current_stream_capturing():  # False if a call of the CPU has failed
                    self.graphs[-1].capture_end()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def _begin_graph(self):
        # cuBLAS keeps a workspace for each stream. One that another capture has made would be written by both at the
        # same time, and freed with the other. So each capture makes its own.
        torch._C._cuda_clearCublasWorkspaces()
        self.graphs.append(torch.cuda.CUDAGraph())
        self.graphs[-1].capture_begin(self.graphs[0].pool() if self.calls else None)

    def interrupt(self, function, *tensors):
        """Leave a call to the CPU, see :func:`~braindecode_censor.numerics.unrecorded.unrecorded`."""
        with torch.cuda.stream(self.stream):
            self.join()
            graph = self.graphs[-1]
            graph.capture_end()
            graph.replay()  # A capture computes nothing, and the function may refuse NaN.
            results = function(*tensors)
            self.calls.append((function, tensors, results))
            self._begin_graph()
            self.branch_off()
        return results

    def branch_off(self):
        """Let the branches wait for everything captured before them."""
        for branch in self.branches:
            branch.wait_stream(self.stream)

    def join(self):
        """Let the following kernels wait for the branches."""
        for branch in self.branches:
            self.stream.wait_stream(branch)

    def replay(self):
        """Replay all graphs and calls on the current stream."""
        self.graphs[0].replay()
        for graph, (function, tensors, results) in zip(self.graphs[1:], self.calls):
            torch._foreach_copy_(results, function(*tensors))
            graph.replay()

    def copy_inputs(self, inputs):
        """Copy arguments to the memory that the next replay reads."""
        new = [name for name, tensor in inputs.items() if tensor is not self.inputs[name]]
        torch._foreach_copy_([self.inputs[name] for name in new], [inputs[name] for name in new])


@contextmanager
def _isolated():
    """Prevent a capture from waiting for the device and from using memory other than its own."""
    collects, library = gc.isenabled(), torch.backends.cuda.preferred_linalg_library()
    gc.disable()  # The collector would free an old capture at once.
    torch.backends.cuda.preferred_linalg_library("cusolver")  # MAGMA, the default for large batches, waits.
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()
        torch.backends.cuda.preferred_linalg_library(library)
        if collects:
            gc.enable()
