"""Recorded launches: on a GPU a penalty is a thousand tiny kernels, and launching them is what costs.

A CUDA graph replays all kernels of a group's penalty, critics and their optimisers by one call of the host.
"""

import gc
from contextlib import contextmanager

import torch

__all__ = ["Recorder", "Recording"]


class Recorder:
    """Decides when a function is recorded, and keeps the recordings, one for each shape of its arguments.

    The first call of a shape runs as usual, which also sets up the libraries it needs; the second is recorded.

    Parameters
    ----------
    function : callable
        From a dict of tensors to a dict of tensors. A result with the name of an argument is the argument's next
        value, which may be changed in place.
    able : bool
        Whether it may be recorded: a host that waits for values in the middle would break the recording.
    """

    def __init__(self, function, able=True):
        self.function, self.able = function, able
        self.recordings = {}

    def __call__(self, inputs):
        """Call the function, by a recording where there is one.

        Parameters
        ----------
        inputs : dict of str to Tensor
            Arguments.

        Returns
        -------
        outputs : dict of str to Tensor
            Its results, which the next call may overwrite.
        """
        recording = self.find(inputs)
        return self.function(inputs) if recording is None else recording.replay(inputs)

    def find(self, inputs):
        """Return the recording for arguments of this shape.

        Parameters
        ----------
        inputs : dict of str to Tensor
            Arguments.

        Returns
        -------
        recording : Recording or None
            None where there is none: elsewhere than on a GPU, at the first call of a shape, and where recording is
            out of the question.
        """
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
    """One call of a function as a CUDA graph.

    Parameters
    ----------
    function : callable
        See :class:`Recorder`.
    inputs : dict of str to Tensor
        Arguments of the shape to record; not changed.
    """

    def __init__(self, function, inputs):
        self.inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        device = next(iter(inputs.values())).device
        self.graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream), _by_itself():
            self.graph.capture_begin()
            try:
                self.outputs = dict(function(dict(self.inputs)))
                for name, tensor in self.inputs.items():  # next values to where the next replay reads them
                    if name in self.outputs:
                        if self.outputs[name] is not tensor:
                            tensor.copy_(self.outputs[name])
                        self.outputs[name] = tensor
            finally:
                self.graph.capture_end()
        torch.cuda.current_stream(device).wait_stream(stream)

    def replay(self, inputs):
        """Call the function.

        Parameters
        ----------
        inputs : dict of str to Tensor
            Arguments of the shape that was recorded; not changed, but for the results of the last replay.

        Returns
        -------
        outputs : dict of str to Tensor
            Its results, which the next replay overwrites.
        """
        new = [name for name, tensor in inputs.items() if tensor is not self.inputs[name]]
        torch._foreach_copy_([self.inputs[name] for name in new], [inputs[name] for name in new])
        self.graph.replay()
        return self.outputs


@contextmanager
def _by_itself():
    """Let a recording neither wait for the device nor use memory that is not its own."""
    collects, library = gc.isenabled(), torch.backends.cuda.preferred_linalg_library()
    gc.disable()  # an old recording that the collector finds is given back there and then
    torch.backends.cuda.preferred_linalg_library("cusolver")  # MAGMA, else taken for large batches, waits
    # cuBLAS keeps a workspace for each stream, which may be the memory of another recording and go with it; so this
    # recording makes its own, and leaves it to nobody.
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()
        torch.backends.cuda.preferred_linalg_library(library)
        if collects:
            gc.enable()
