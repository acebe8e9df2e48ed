"""Read arrays from an ``.npz`` archive that may be damaged, hostile or absurdly large."""

import math
import struct
import zipfile

import numpy as np

from braindecode_censor.datasets._check import require
from braindecode_censor.datasets._download import BROKEN

_MAX_BYTES = 2**26  # labels and names are small; only the trials may be larger
_MAX_EXTRA_BYTES = 2**16  # a scalar of the user's, such as the name of a group
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npz(path, trials, names, data=True):
    """Return the shape of the trials, the trials (None without ``data``) and a dict of the other arrays."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            _check_count(archive.zip, path)
            heads = dict(_read_head(archive.zip, member) for member in archive.zip.infolist())
            shape, _ = heads.pop(trials, (None, 0))
            for key in heads.keys() & set(names):
                require(heads[key][1] <= _MAX_BYTES, f"{key} has {heads[key][1]} bytes, too many per trial")
            scalars = [key for key, (dims, size) in heads.items() if dims == () and size <= _MAX_EXTRA_BYTES]
            values = {key: archive[key] for key in heads if key in names or key in scalars}
            X = archive[trials] if data and shape is not None else None
    except (*BROKEN, OSError, ValueError) as error:
        problem = "truncated, damaged, protected by a password, or not an .npz file of numbers and strings"
        raise ValueError(f"{path} cannot be read ({error}): {problem}. Copy or save it again.") from error
    except MemoryError as error:
        raise ValueError(f"{path} does not fit into memory ({error}); resample or split it.") from error
    return shape, X, values


def _check_count(archive, path):
    """Raise unless the archive lists as many members as it counts: damage can hide one in the entry of another."""
    with open(path, "rb") as stream:
        stream.seek(-22, 2)  # an archive without a comment ends with its own summary there
        end = stream.read()
    if end.startswith(b"PK\5\6") and struct.unpack("<H", end[10:12])[0] != len(archive.infolist()):
        raise zipfile.BadZipFile("its table of contents is damaged")


def _read_head(archive, member):
    """Return key, shape and number of bytes of an array, whose samples are not read."""
    name, file_size = member.filename, member.file_size
    with archive.open(member) as stream:
        try:
            shape, _, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
        except (KeyError, TypeError, SyntaxError) as error:
            raise ValueError(f"{name} is no array") from error
        n_bytes = stream.tell() + math.prod(shape) * dtype.itemsize
    require(name.endswith(".npy"), f"{name!r} is no array")
    require(not dtype.hasobject, f"{name} holds Python objects")
    require(n_bytes == file_size, f"{name} should have {n_bytes} bytes, not {file_size}")
    return name.removesuffix(".npy"), (shape, n_bytes)
