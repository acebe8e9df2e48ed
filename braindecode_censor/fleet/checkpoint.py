"""Progress of a group on disk, so that a killed fleet continues where it was."""

import json
from pathlib import Path

import torch
from safetensors.torch import load, save

from braindecode_censor.storage.files import write_atomically
from braindecode_censor.storage.seal import digest, seal, unseal

__all__ = ["Checkpoint"]

_PROGRESS = ("history", "count", "seconds", "best_epoch", "best_loss", "best_score")


class Checkpoint:
    """One sealed file with the unfinished replicas of a group, found again by their keys.

    The position of a replica in its own random order is not written. Drawing the batches of its finished epochs
    restores it.
    """

    def __init__(self, folder, signature):
        self.path = None if folder is None else Path(folder, f"{digest(signature.encode())[:16]}.checkpoint")

    def write(self, group):
        """Write the state of a group instead of the previous one."""
        if self.path is None:
            return
        tensors, replicas = group.save(), group.replicas
        tensors["generator"] = torch.stack([replica.generator.get_state() for replica in replicas])
        if replicas[0].censor is not None:
            states = [replica.censor.generator.get_state() for replica in replicas]
            tensors["noise_generator"] = torch.stack(states)
        progress = {str(r.key): {name: getattr(r, name) for name in _PROGRESS} for r in replicas}
        # As a tensor of bytes, the text is in the same file.
        tensors["progress"] = torch.frombuffer(bytearray(json.dumps(progress).encode()), dtype=torch.uint8)
        write_atomically(self.path, seal(save(tensors)))

    def read(self, replicas):
        """Restore replicas that were saved; return the state of each in the stack, or None."""
        progress, tensors = self._load()
        rows = {key: i for i, key in enumerate(progress)}
        states = []
        for key in (str(replica.key) for replica in replicas):
            # Generators do not accept a row of a larger tensor as their state, so rows are copied.
            row = rows.get(key)
            states.append(None if row is None else {name: t[row].clone() for name, t in tensors.items()})
        for replica, state in zip(replicas, states):
            if state is not None:
                generators = state.pop("generator"), state.pop("noise_generator", None)
                replica.restore(progress[str(replica.key)], *generators)
        return states

    def _load(self):
        try:
            content = None if self.path is None else unseal(self.path.read_bytes())
        except OSError:
            content = None
        if content is None:
            return {}, {}
        tensors = load(content)
        return json.loads(tensors.pop("progress").numpy().tobytes()), tensors

    def remove(self):
        """Delete the file, because all replicas have finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
