"""Tensors and a JSON header as safetensors bytes: equal content gives equal bytes, and reading executes no code."""

import json

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from braindecode_censor.storage.schema import read_json

__all__ = ["format_of", "read_tensors", "write_tensors"]


def write_tensors(tensors, header, format):
    """Return named tensors or arrays and a header as bytes."""
    tensors = {name: _as_tensor(values) for name, values in tensors.items()}
    return _sort_header(save(tensors, metadata={"format": format, "header": json.dumps(header)}))


def read_tensors(content, format, name, schema=dict, finite=True):
    """Return the header and the tensors of what :func:`write_tensors` made; `name` is what errors call the content."""
    try:
        tensors = load(content)
        metadata = _header_of(content).get("__metadata__", {})
    except (SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{name} is not a saved {format.rpartition(' ')[0]}, or it is damaged: {error}."
        ) from None
    if metadata.get("format") != format:
        raise ValueError(
            f"{name} is not a saved {format.rpartition(' ')[0]}: its format is {metadata.get('format')!r}, expected "
            f"{format!r}. Files of other versions cannot be read: train again."
        )
    for key, tensor in tensors.items():
        if finite and not torch.isfinite(tensor).all():
            raise ValueError(f"{name} is damaged: {key} holds numbers that are not finite.")
    return read_json(schema, metadata.get("header", ""), f"the header of {name}"), tensors


def format_of(content):
    """Return the format that :func:`write_tensors` was given, or an empty text."""
    try:
        return _header_of(content)["__metadata__"]["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _as_tensor(values):
    if isinstance(values, torch.Tensor):
        return values.detach().cpu().contiguous()
    return torch.tensor(np.ascontiguousarray(values))


def _header_of(content):
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def _sort_header(content):
    # safetensors writes the metadata in random order.
    header = json.dumps(_header_of(content), sort_keys=True).encode()
    header += b" " * (-len(header) % 8)  # The format aligns the tensors.
    return len(header).to_bytes(8, "little") + header + content[8 + int.from_bytes(content[:8], "little") :]
