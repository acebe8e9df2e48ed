"""Held-out probabilities of all candidates and tiers in one file, from which every table is made without training."""

import hashlib
import io
import json

import numpy as np

from braindecode_censor.search.heldout import HeldOut
from braindecode_censor.storage.files import write_atomically

__all__ = ["cut_heldout", "join_heldout", "read_heldout", "write_heldout"]


def write_heldout(path, heldout, kinds):
    """Keep held-out probabilities in a file."""
    first = next(iter(heldout.values()))
    arrays = {"kinds": json.dumps(kinds), "pairs": np.array(first.pairs), "tiers": list(heldout)}
    arrays |= {f"y {person}": y for person, y in enumerate(first.labels)}
    for tier, found in heldout.items():
        for name in kinds:
            said = [p for pair in range(len(first.pairs)) for p in found.found[name][pair].values()]
            arrays[f"{tier} {name}"] = np.concatenate(said).astype(np.float32)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays, digest=_digest(arrays))
    write_atomically(path, buffer.getvalue())


def read_heldout(path):
    """Read what :func:`write_heldout` has written."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    if str(arrays.pop("digest")) != _digest(arrays):
        raise ValueError(
            f"{path} was changed after it was written: delete it, and what it held is tested again."
        )
    kinds, pairs = json.loads(str(arrays["kinds"])), [tuple(pair) for pair in arrays["pairs"].tolist()]
    labels = [arrays[f"y {person}"] for person in range(max(map(max, pairs)) + 1)]
    ends = np.cumsum([len(labels[person]) for pair in pairs for person in pair])[:-1]
    heldout = {}
    for tier in arrays["tiers"].tolist():
        heldout[tier] = HeldOut(labels, pairs)
        for name in kinds:
            said = np.split(arrays[f"{tier} {name}"], ends)
            for pair in range(len(pairs)):
                heldout[tier].add(name, pair, *said[2 * pair : 2 * pair + 2])
    return heldout, kinds


def _digest(arrays):
    """Return a checksum over names, types, shapes and numbers."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def cut_heldout(heldout, first, pairs):
    """Return the part of held-out probabilities that belongs to one seed."""
    part = HeldOut(heldout.labels, pairs)
    for name, found in heldout.found.items():
        for position in range(len(pairs)):
            part.add(name, position, *found[first + position].values())
    return part


def join_heldout(parts):
    """Put the held-out probabilities of several seeds together, so that every person has the partners of all of them."""
    whole = HeldOut(parts[0].labels, [pair for part in parts for pair in part.pairs])
    for name in parts[0].found:
        if all(name in part.found for part in parts):
            said = (part.found[name][k] for part in parts for k in range(len(part.pairs)))
            for position, both in enumerate(said):
                whole.add(name, position, *both.values())
    return whole
