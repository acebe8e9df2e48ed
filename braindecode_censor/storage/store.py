"""A folder of results by key: each is there in full or not at all, and a damaged one counts as missing."""

import json
import time
from pathlib import Path

from braindecode_censor.storage.files import clear_errors, read_file, write_atomically
from braindecode_censor.storage.seal import seal, unseal

__all__ = ["Store"]


class Store:
    """Files ``<key>.training`` in a folder that is made when the first one is written."""

    def __init__(self, folder):
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"folder={str(folder)!r} is a file: name a folder.")

    def path(self, key):
        """Return the path of a result."""
        return self.folder / f"{key}.training"

    def read(self, key):
        """Return the bytes of a result, or None if it is missing or damaged."""
        try:
            return unseal(read_file(self.path(key)), key)
        except OSError:
            return None

    def write(self, key, content, **facts):
        """Keep the bytes of a result, and add a line with some facts to the log."""
        write_atomically(self.path(key), seal(content, key))
        line = json.dumps({"key": key, "finished": time.time(), **facts})
        with clear_errors(self.folder), open(self.folder / "log.jsonl", "a") as file:
            file.write(line + "\n")
