"""What teaching learned, as bytes: dataclasses as JSON, in which arrays are replaced by their names."""

from dataclasses import fields, is_dataclass

import numpy as np

from braindecode_censor.decoder.forecast import Forecaster
from braindecode_censor.decoder.regression import ViewRegression
from braindecode_censor.decoder.taught import TaughtSubject
from braindecode_censor.decoder.teacher import Teacher
from braindecode_censor.storage.tensors import read_tensors, write_tensors

__all__ = ["pack_teaching", "unpack_teaching"]

_FORMAT = "braindecode-censor teaching 1"
_TYPES = {cls.__name__: cls for cls in (Forecaster, TaughtSubject, Teacher, ViewRegression)}


def pack_teaching(*values):
    """Return the bytes of teachers, taught subjects, arrays and lists of them."""
    arrays = {}
    header = {"values": _flatten(values, arrays)}
    return write_tensors(arrays, header, _FORMAT)


def unpack_teaching(content, name):
    """Return the list of values that :func:`pack_teaching` was given."""
    header, tensors = read_tensors(content, _FORMAT, name)
    return _unflatten(header["values"], {key: tensor.numpy() for key, tensor in tensors.items()})


def _flatten(value, arrays):
    if isinstance(value, np.ndarray):
        arrays[str(len(arrays))] = value
        return {"array": str(len(arrays) - 1)}
    if is_dataclass(value):
        content = {field.name: _flatten(getattr(value, field.name), arrays) for field in fields(value)}
        return {"type": type(value).__name__, "content": content}
    return [_flatten(item, arrays) for item in value] if isinstance(value, (list, tuple)) else value


def _unflatten(value, arrays):
    if isinstance(value, dict) and "array" in value:
        return arrays[value["array"]]
    if isinstance(value, dict):
        content = {name: _unflatten(item, arrays) for name, item in value["content"].items()}
        return _TYPES[value["type"]](**content)
    return [_unflatten(item, arrays) for item in value] if isinstance(value, list) else value
