"""Read arrays out of an ``.npz`` archive that may be damaged, hostile or absurdly large."""

import math
import struct
import zipfile
import zlib

import numpy as np

from braindecode_censor.datasets._archive import check_members

#: What Python's reader of archives raises for a damaged file; RuntimeError is a password.
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
)
# Labels and names are small; nothing but the trials may be larger than this.
_LARGEST = 2**26
# A scalar that a user has added, such as the name of a group.
_LARGEST_EXTRA = 2**16
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npz(path, trials, known, data=True):
    """Return the shape of the trials, the trials, and the other arrays of an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_members(archive, path)
            _check_count(archive, path)
            heads = {key: _read_head(archive, member, path) for key, member in _arrays(archive)}
            shape = heads[trials][0] if trials in heads else None
            wanted = [key for key, head in heads.items() if _is_wanted(key, head, trials, known, path)]
            values = {key: _read_array(archive, key, path) for key in wanted}
            X = _read_array(archive, trials, path) if data and shape is not None else None
    except BROKEN as error:
        raise ValueError(
            f"{path} cannot be read ({error}): truncated, damaged, protected by a password, or not an .npz file. "
            "Copy it again, or save it again without a password."
        ) from error
    except MemoryError as error:
        raise ValueError(
            f"{path} does not fit into memory ({error}); split it or resample its trials."
        ) from error
    return shape, X, values


def _check_count(archive, path):
    """Raise unless the archive lists as many members as it counts: damage can hide a member inside another's entry."""
    with open(path, "rb") as stream:
        stream.seek(-22, 2)  # where an archive without a comment ends with its own summary
        end = stream.read()
    if end.startswith(b"PK\5\6") and struct.unpack("<H", end[10:12])[0] != len(archive.infolist()):
        raise zipfile.BadZipFile("its table of contents is damaged")


def _arrays(archive):
    """Yield the key and the member of every array."""
    for member in archive.infolist():
        if not member.filename.endswith(".npy"):  # a damaged name, or no .npz file
            raise zipfile.BadZipFile(f"{member.filename!r} is no array")
        yield member.filename.removesuffix(".npy"), member


def _read_head(archive, member, path):
    """Return shape, type and number of bytes of an array without reading it."""
    with archive.open(member) as stream:
        try:
            shape, _, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
        except (ValueError, KeyError, TypeError, SyntaxError, UnicodeError) as error:
            raise zipfile.BadZipFile(f"{member.filename} is no array: {error}") from error
        if dtype.hasobject:
            raise ValueError(
                f"{path}: {member.filename.removesuffix('.npy')} holds Python objects; expected plain numbers and "
                "strings only."
            )
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes + stream.tell() != member.file_size:
            raise zipfile.BadZipFile(
                f"{member.filename} should hold {n_bytes} bytes, but its file has {member.file_size}"
            )
    return shape, dtype, n_bytes


def _is_wanted(key, head, trials, known, path):
    shape, _, n_bytes = head
    if key == trials:
        return False
    if key not in known:
        return shape == () and n_bytes <= _LARGEST_EXTRA
    if n_bytes > _LARGEST:
        raise ValueError(
            f"{path}: {key} has shape {shape} and {n_bytes} bytes; expected one short entry per trial."
        )
    return True


def _read_array(archive, key, path):
    with archive.open(f"{key}.npy") as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)
