"""The finished trainings of an experiment's folder, by key."""

from pathlib import Path

from braindecode_censor.storage.store import Store

__all__ = ["open_store", "read_training"]


def open_store(out):
    """Return the store of an experiment's folder."""
    return Store(Path(out) / "trainings")


def read_training(out, key):
    """Return the TrainingResult of a key, without its training, or None if it is missing or damaged."""
    content = open_store(out).read(key)
    if content is None:
        return None
    # Imported here, since tables and figures need no Braindecode, whose import takes seconds.
    from braindecode_censor.run.training import TrainingResult

    return TrainingResult.from_bytes(None, content)
