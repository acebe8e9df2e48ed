"""Where a group stands, on disk: so that a killed fleet does not begin again."""

import hashlib
import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from braindecode_censor.storage.files import write_atomically

__all__ = ["Checkpoint"]

_CHECKSUM = hashlib.sha256().digest_size
_HOST = ("history", "count", "seconds", "best_epoch", "best_loss", "best_score")


class Checkpoint:
    """One file with the members of a group that have begun and not finished: a checksum and safetensors.

    Notes
    -----
    Members are found by their key, whoever else is in the group the second time. The place of a member in its
    own random order is not written: it is found again by drawing the batches of the epochs behind it.
    """

    def __init__(self, folder, signature):
        name = hashlib.sha256(signature.encode()).hexdigest()[:16]
        self.path = None if folder is None else Path(folder, f"{name}.checkpoint")

    def write(self, group):
        """Write where a group stands, in place of what was written before."""
        if self.path is None:
            return
        tensors = group.save()
        tensors["generator"] = torch.stack([member.generator.get_state() for member in group.members])
        if group.members[0].censor is not None:
            states = [member.censor.generator.get_state() for member in group.members]
            tensors["noise_generator"] = torch.stack(states)
        host = {str(m.key): {name: getattr(m, name) for name in _HOST} for m in group.members}
        # The text goes along as a tensor of bytes, so that one checksum covers everything.
        tensors["members"] = torch.frombuffer(bytearray(json.dumps(host).encode()), dtype=torch.uint8)
        content = save(tensors)
        write_atomically(self.path, hashlib.sha256(content).digest() + content)

    def read(self, members):
        """Put members back to where they stood."""
        host, tensors = self._load()
        rows = {key: i for i, key in enumerate(host)}
        states = []
        for member in members:
            row = rows.get(str(member.key))
            # Copies: torch's generators do not take a row of a larger tensor for their state.
            state = None if row is None else {name: tensor[row].clone() for name, tensor in tensors.items()}
            if state is not None:
                member.restore(
                    host[str(member.key)], state.pop("generator"), state.pop("noise_generator", None)
                )
            states.append(state)
        return states

    def _load(self):
        if self.path is None:
            return {}, {}
        try:
            written = self.path.read_bytes()
            checksum, content = written[:_CHECKSUM], written[_CHECKSUM:]
            if hashlib.sha256(content).digest() != checksum:
                return {}, {}
            tensors = load(content)
            return json.loads(tensors.pop("members").numpy().tobytes()), tensors
        except (OSError, SafetensorError, KeyError, ValueError):
            return {}, {}

    def remove(self):
        """Forget: everybody has finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
