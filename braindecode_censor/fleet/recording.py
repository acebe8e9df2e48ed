"""Penalties as recorded launches: on a GPU a penalty is a thousand tiny kernels, and launching them is what costs.

A CUDA graph replays all kernels of a group's penalty, critics and their optimisers by one call of the host, and
graphs of different groups run side by side on streams of their own.
"""

from functools import lru_cache

import torch

__all__ = ["Recorder", "push_groups"]

# More do not help: this many small kernels fill the device's queues.
_N_STREAMS = 16


def push_groups(parts, codes, steady=True):
    """Train the critics of all groups and ask what the penalties do to z.

    Parameters
    ----------
    parts : list of Part
        The groups, all with a penalty.
    codes : list of Tensor of shape (n_members, n, n_features)
        Their latent codes, detached.
    steady : bool
        Whether steps of these shapes are likely to come again, so that recording them pays.

    Returns
    -------
    found : list of tuple
        For each group what :meth:`~braindecode_censor.fleet.graph.Graph.push` returns, valid until the next call.
    """
    recordings = [part.graph.recorder.find(part, z) if steady else None for part, z in zip(parts, codes)]
    found, busy = {}, []
    # those that run by themselves first: the host then launches the others beside them
    for k, recording in enumerate(recordings):
        if recording is not None:
            stream = _streams(codes[k].device)[len(busy) % _N_STREAMS]
            stream.wait_stream(torch.cuda.current_stream(stream.device))
            with torch.cuda.stream(stream):
                found[k] = recording.replay(parts[k], codes[k])
            busy.append(stream)
    for k, recording in enumerate(recordings):
        if recording is None:
            found[k] = parts[k].graph.push(parts[k], codes[k])
    for stream in dict.fromkeys(busy):
        torch.cuda.current_stream(stream.device).wait_stream(stream)
    return [found[k] for k in range(len(parts))]


@lru_cache
def _streams(device):
    return [torch.cuda.Stream(device) for _ in range(_N_STREAMS)]


class Recorder:
    """Decides when a group's penalty is recorded, and keeps the recordings.

    The first step of a shape runs as usual, which also sets up the libraries it needs; the second is recorded.

    Parameters
    ----------
    graph : Graph
        Whose :meth:`~braindecode_censor.fleet.graph.Graph.push` is recorded.
    """

    def __init__(self, graph):
        self.graph = graph
        # A host that waits for values in the middle of a recording would break it.
        self.able = not any(measure.waits for measure in graph.penalty.measures)
        self.recordings = {}

    def find(self, part, z):
        """Return the recording of steps of this shape.

        Parameters
        ----------
        part : Part
            The group's.
        z : Tensor of shape (n_members, n, n_features)
            Its latent codes.

        Returns
        -------
        recording : Recording or None
            None where there is none: elsewhere than on a GPU, at the first step of a shape, and for measures
            that wait for the device.
        """
        if not (self.able and z.is_cuda):
            return None
        shape = tuple(z.shape)
        if shape not in self.recordings:
            self.recordings[shape] = None
        elif self.recordings[shape] is None:
            self.recordings[shape] = Recording(self.graph, part, z)
        return self.recordings[shape]

    def clear(self):
        """Forget all recordings, with their memory; for a group whose members have changed."""
        self.recordings.clear()


class Recording:
    """One step of a group's penalty and critics as a CUDA graph.

    Parameters
    ----------
    graph : Graph
        The group's.
    part : Part
        A step of the shape to record; its state is not changed.
    z : Tensor of shape (n_members, n, n_features)
        Its latent codes.
    """

    def __init__(self, graph, part, z):
        self.inputs = [tensor.clone() for tensor in _inputs(part, z)]
        self.state = {name: tensor.clone() for name, tensor in part.state.items() if _is_critic(name)}
        y, s, coefficients, z, *noise = self.inputs
        noise = noise[0] if noise else None
        recorded = part._replace(state=dict(self.state), y=y, s=s, coefficients=coefficients, noise=noise)
        self.graph, stream = torch.cuda.CUDAGraph(), _streams(z.device)[0]
        stream.wait_stream(torch.cuda.current_stream(z.device))
        with torch.cuda.stream(stream):
            self.graph.capture_begin()
            try:
                self.outputs = graph.push(recorded, z)
                for name, tensor in self.state.items():  # where the next replay reads it
                    if recorded.state[name] is not tensor:
                        tensor.copy_(recorded.state[name])
            finally:
                self.graph.capture_end()
        torch.cuda.current_stream(z.device).wait_stream(stream)

    def replay(self, part, z):
        """Take the step.

        Parameters
        ----------
        part : Part
            The group's; the critics in its state are changed.
        z : Tensor of shape (n_members, n, n_features)
            Its latent codes.

        Returns
        -------
        push, values, critic_losses : Tensor
            As :meth:`~braindecode_censor.fleet.graph.Graph.push` returns them; overwritten by the next replay.
        """
        own, given = list(self.inputs), _inputs(part, z)
        for name, tensor in self.state.items():
            if part.state[name] is not tensor:  # after a replay it is
                own.append(tensor)
                given.append(part.state[name])
        torch._foreach_copy_(own, given)
        self.graph.replay()
        part.state.update(self.state)
        return self.outputs


def _inputs(part, z):
    tensors = [part.y, part.s, part.coefficients, z]
    return tensors if part.noise is None else [*tensors, part.noise]


def _is_critic(name):
    return name.startswith(("phi", "control."))
