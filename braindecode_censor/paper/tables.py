"""Tables with a checksum in ``SHA256SUMS``, in the form of ``sha256sum -c``; a changed table is refused."""

import io
from pathlib import Path

import pandas as pd

from braindecode_censor.storage.files import write_atomically
from braindecode_censor.storage.seal import digest

__all__ = [
    "INDEX",
    "TableError",
    "break_seal",
    "is_intact",
    "read_index",
    "read_sealed",
    "read_table",
    "seal",
    "was_changed",
    "write_sealed",
    "write_table",
]

_SUMS = "SHA256SUMS"
#: Table of the stored trainings: configuration, seed, test subject and key.
INDEX = "trainings/index.csv"


class TableError(ValueError):
    """A table is missing or was changed; the message gives the remedy."""


def write_sealed(out, name, content):
    """Write a file and record its checksum."""
    write_atomically(Path(out, name), content)
    seal(out, name)


def seal(out, name):
    """Record the checksum of a file that another library has written."""
    _write_sums(out, {**_read_sums(out), name: digest(Path(out, name).read_bytes())})


def break_seal(out, name):
    """Remove the checksum of a file that is about to be changed."""
    sums = _read_sums(out)
    if sums.pop(name, None) is not None:
        _write_sums(out, sums)


def was_changed(out, name):
    """Return whether a file differs from what was sealed."""
    path, checksum = Path(out, name), _read_sums(out).get(name)
    return checksum is not None and path.is_file() and digest(path.read_bytes()) != checksum


def read_sealed(out, name):
    """Return the content of a file if it is what was written."""
    remedy = f"`autotransfer resume --out {out}` writes it again from the finished trainings"
    try:
        content = Path(out, name).read_bytes()
    except OSError:
        raise TableError(f"{Path(out, name)} is missing: {remedy}.") from None
    if _read_sums(out).get(name) != digest(content):
        raise TableError(f"{Path(out, name)} was changed after it was written (see {_SUMS}): {remedy}.")
    return content


def is_intact(out, name):
    """Return whether a file exists and equals what was written."""
    try:
        read_sealed(out, name)
    except TableError:
        return False
    return True


def write_table(out, name, frame):
    """Write a frame without its index, as a CSV file with a checksum."""
    write_sealed(out, name, frame.to_csv(index=False).encode())


def read_table(out, name):
    """Read a frame that :func:`write_table` wrote."""
    content = read_sealed(out, name)
    return pd.read_csv(io.BytesIO(content)) if content.strip() else pd.DataFrame()


def read_index(out):
    """Return the table of the stored trainings, empty where there is none."""
    if not Path(out, INDEX).is_file():
        return pd.DataFrame(columns=["setting", "seed", "subject", "key"])
    return read_table(out, INDEX)


def _read_sums(out):
    try:
        lines = Path(out, _SUMS).read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.split("  ", 1) for line in lines)
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}


def _write_sums(out, sums):
    lines = [f"{sums[name]}  {name}\n" for name in sorted(sums)]
    write_atomically(Path(out, _SUMS), "".join(lines).encode())
