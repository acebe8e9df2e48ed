"""Finished trainings on disk: what was trained once on the same data with the same arguments is read, not trained.

This is where crash safety comes from. MOABB writes its results when a whole dataset is done; a training whose
weights are on disk costs nothing the second time, so MOABB can start from the beginning as it likes.
"""

import hashlib
import json
import time
from pathlib import Path
from typing import NamedTuple

from safetensors.numpy import load, save

from braindecode_censor.storage.files import clear_errors, write_atomically

__all__ = ["Training", "TrainingCache"]


class Training(NamedTuple):
    """A finished training, as it travels from a worker to the disk."""

    weights: bytes
    record: dict
    heldout: dict | None = None


class TrainingCache:
    """A folder of finished trainings.

    A training is ``<key>.safetensors`` with its weights, ``<key>.heldout.safetensors`` with answers for people it had
    not seen, if there are any, and ``<key>.json`` with its record.

    Notes
    -----
    The record is written last and carries a checksum over all three files and the key. Each is written under a
    temporary name that is then renamed. A record that does not match counts as no training at all, so whatever a
    crash, a bad disk or an editor leaves behind is trained again and not believed.
    """

    def __init__(self, folder):
        self.folder = Path(folder)

    def read(self, key):
        """Return the record of a finished training, or None."""
        try:
            record = json.loads(self._path(key, "json").read_bytes())
            weights = b"" if "error" in record else self._path(key, "safetensors").read_bytes()
            heldout = self._path(key, "heldout.safetensors").read_bytes() if record["has_heldout"] else b""
            return record if record.pop("sha256") == _digest(key, record, weights, heldout) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def is_damaged(self, key):
        """Tell whether a training was finished once and cannot be believed any more."""
        return self.read(key) is None

    def write(self, key, training):
        """Keep a finished training."""
        # What the caller goes on with must be what a resumed run would read, so numbers pass through JSON first.
        record = json.loads(json.dumps({**training.record, "has_heldout": bool(training.heldout)}))
        heldout = save(training.heldout) if training.heldout else b""
        if training.weights:
            write_atomically(self._path(key, "safetensors"), training.weights)
        if heldout:
            write_atomically(self._path(key, "heldout.safetensors"), heldout)
        sealed = {**record, "sha256": _digest(key, record, training.weights, heldout)}
        write_atomically(self._path(key, "json"), json.dumps(sealed).encode())
        line = {"key": key, "finished": time.time(), "seconds": record["seconds"]}
        with clear_errors(self.folder), open(self.folder / "log.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        return record

    def load(self, key, **params):
        """Return the trained estimator."""
        # Only here, because who reads records and tables needs neither Braindecode nor its seconds of import.
        from braindecode_censor.training.classifier import CensoredEEGClassifier

        return CensoredEEGClassifier.load(self._path(key, "safetensors"), **params)

    def heldout(self, key):
        """Return what a trained decoder answered for people it had not seen."""
        path = self._path(key, "heldout.safetensors")
        return load(path.read_bytes()) if path.is_file() else {}

    def _path(self, key, ending):
        return self.folder / f"{key}.{ending}"


def _digest(key, record, weights, heldout):
    content = json.dumps(record, sort_keys=True).encode()
    parts = [key, *(hashlib.sha256(part).hexdigest() for part in (content, weights, heldout))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
