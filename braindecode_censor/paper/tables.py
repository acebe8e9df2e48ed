"""Tables with a checksum in ``SHA256SUMS``, in the form of ``sha256sum -c``; a changed table is refused."""

import io
from pathlib import Path

import pandas as pd

from braindecode_censor.storage.files import write_atomically
from braindecode_censor.storage.seal import digest

__all__ = [
    "INDEX",
    "TableError",
    "is_intact",
    "read_index",
    "read_sealed",
    "read_table",
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
    sums = _read_sums(out) | {name: digest(content)}
    lines = [f"{sums[name]}  {name}\n" for name in sorted(sums)]
    write_atomically(Path(out, _SUMS), "".join(lines).encode())


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
