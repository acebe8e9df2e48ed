"""Tables of a study: one compressed CSV file each, the rows of several datasets below each other."""

import gzip
from pathlib import Path

import pandas as pd

from braindecode_censor.storage.files import write_atomically

__all__ = ["read_tables", "replace_rows", "write_tables"]


def read_tables(folder, names):
    """Return the tables of a folder that exist, as name -> table."""
    paths = {name: Path(folder, f"{name}.csv.gz") for name in names}
    return {name: pd.read_csv(path) for name, path in paths.items() if path.is_file()}


def replace_rows(tables, new, keys=("recording",)):
    """Add rows to tables, in which they replace the rows with the same keys."""
    keys = list(keys)
    for name, rows in new.items():
        if name in tables:
            old = tables[name]
            is_replaced = pd.MultiIndex.from_frame(old[keys]).isin(pd.MultiIndex.from_frame(rows[keys]))
            rows = pd.concat([old[~is_replaced], rows], ignore_index=True) if not is_replaced.all() else rows
        tables[name] = rows


def write_tables(folder, tables):
    """Write tables; equal ones give equal bytes."""
    for name, table in tables.items():
        content = gzip.compress(table.to_csv(index=False, float_format="%.6g").encode(), mtime=0)
        write_atomically(Path(folder, f"{name}.csv.gz"), content)
