"""Finished trainings of pairs on disk, so that a search that was killed goes on where it was."""

import hashlib
import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from braindecode_censor.run.pair_data import Outcome
from braindecode_censor.storage.files import write_atomically
from braindecode_censor.storage.keys import versions
from braindecode_censor.trials.stored import read_blocks

__all__ = ["PairStore"]


class PairStore:
    """A folder of trainings, each sealed by a checksum; what is damaged counts as not there."""

    def __init__(self, folder, data):
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            if self.folder.exists() and not self.folder.is_dir():
                raise ValueError(f"folder={str(folder)!r} is a file: name a folder.")
            digest = hashlib.sha256(repr((data.X.shape, data.X.dtype.str)).encode())
            for array in (*read_blocks(data.X), data.y, data.people):
                digest.update(np.ascontiguousarray(array))
            self.data = [
                digest.hexdigest(),
                data.target,
                data.sfreq,
                data.device,
                data.random_state,
                data.most,
            ]

    def _path(self, candidate, position, steps, data):
        parts = [candidate.name, candidate.spec, position, data.pairs[position], steps, self.data, versions()]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return self.folder / "pairs" / f"{key}.training"

    def read(self, candidate, position, steps, data):
        """Return a training that was finished before."""
        if self.folder is None or candidate.kind == "own":
            return None
        try:
            content = self._path(candidate, position, steps, data).read_bytes()
            seal, payload = content[:64], content[65:]
            if hashlib.sha256(payload).hexdigest().encode() != seal:
                return None
            size = int.from_bytes(payload[:8], "little")
            seconds = json.loads(payload[8 : 8 + size])["__metadata__"]["seconds"]
            arrays = load(payload)
        except (OSError, ValueError, KeyError, SafetensorError):
            return None
        model = arrays["model"].tobytes()
        return Outcome(
            candidate.name, position, steps, arrays["first"], arrays["second"], model, float(seconds)
        )

    def write(self, candidate, outcome, data):
        """Keep a training; failed ones and those of a user's own estimator, which needs pickle, are not kept."""
        if self.folder is None or candidate.kind == "own" or outcome.error is not None:
            return
        arrays = {"first": outcome.first, "second": outcome.second}
        arrays["model"] = np.frombuffer(outcome.model, dtype=np.uint8)
        payload = save(arrays, metadata={"seconds": repr(outcome.seconds)})
        seal = hashlib.sha256(payload).hexdigest().encode()
        path = self._path(candidate, outcome.position, outcome.steps, data)
        write_atomically(path, seal + b"\n" + payload)
