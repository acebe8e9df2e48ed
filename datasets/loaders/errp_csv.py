"""Read and check the CSV files of the Kaggle challenge."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from braindecode_censor.datasets._check import check_unique, require

SFREQ = 200.0
_NAMES = (  # as in the header of the files, "P08" included
    "Fp1 Fp2 AF7 AF3 AF4 AF8 F7 F5 F3 F1 Fz F2 F4 F6 F8 FT7 FC5 FC3 FC1 FCz FC2 FC4 FC6 FT8 T7 C5 C3 C1 Cz C2 C4 C6 "
    "T8 TP7 CP5 CP3 CP1 CPz CP2 CP4 CP6 TP8 P7 P5 P3 P1 Pz P2 P4 P6 P8 PO7 POz P08 O1 O2"
)
EEG_COLUMNS = _NAMES.split()
_LABEL_COLUMNS = ["IdFeedBack", "Prediction"]
COLUMNS = ["Time", *EEG_COLUMNS, "EOG", "FeedBackEvent"]


def find_recordings(folder):
    """Return all recordings below a folder, a dict of (subject, session) to path."""
    files = {}
    for path in sorted(Path(folder).rglob("Data_S*_Sess*.csv")):
        match = re.fullmatch(r"Data_S(\d\d)_Sess(\d\d)\.csv", path.name)
        require(match, f"{path} is not called Data_SXX_SessYY.csv; rename it or move it away.")
        subject, session = int(match[1]), int(match[2])
        other = files.setdefault((subject, session), path)
        require(other == path, f"subject {subject}, session {session} is there twice: {other}, {path}.")
    return files


def _read_table(path):
    """Return a CSV file as a table."""
    try:
        return pd.read_csv(path, low_memory=False)
    except (ValueError, pd.errors.ParserError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _check_rows(path, wrong, message):
    """Raise with the line of the first wrong row; a callable makes the message from its row number."""
    rows = np.flatnonzero(wrong)
    if len(rows):
        raise ValueError(f"{path}, line {rows[0] + 2}: {message(rows[0])}")


def read_labels(path):
    """Return the labels of TrainLabels.csv, a dict of (subject, session) to labels in order of the feedbacks."""
    table = _read_table(path)
    columns = list(table.columns)
    require(columns == _LABEL_COLUMNS, f"{path} has the columns {columns}; expected {_LABEL_COLUMNS}.")
    names, labels = table["IdFeedBack"].astype(str), table["Prediction"]
    _check_rows(path, ~labels.isin([0, 1]), lambda k: f"Prediction is {labels[k]}; expected 0 or 1.")
    keys = names.str.extract(r"^S(\d\d)_Sess(\d\d)_FB(\d{3})$")
    wrong = keys.isna().any(axis=1)
    _check_rows(path, wrong, lambda k: f"IdFeedBack is {names[k]!r}; expected S02_Sess01_FB001.")
    check_unique(names, path, "IdFeedBack")
    keys = keys.astype(int).assign(label=labels.astype(int)).sort_values([0, 1, 2])
    sessions = {}
    for (subject, session), rows in keys.groupby([0, 1]):
        require(
            list(rows[2]) == list(range(1, len(rows) + 1)),
            f"{path}: the feedbacks of S{subject:02d}_Sess{session:02d} are numbered {rows[2].min()} to "
            f"{rows[2].max()}, but there are {len(rows)}; expected 1, 2, 3 without gaps. Truncated?",
        )
        sessions[subject, session] = rows["label"].to_numpy()
    return sessions


def read_recording(path):
    """Return the signals of one session, of shape (57, n_samples) in microvolts, and the onsets of the feedbacks."""
    _check_header(path)
    values = _read_table(path).apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
    require(len(values) > 1, f"{path} holds {len(values)} rows; expected minutes of signal at {SFREQ:g} Hz.")
    bad = ~np.isfinite(values)
    _check_rows(path, bad.any(axis=1), lambda k: f"column {COLUMNS[bad[k].argmax()]}: no number; truncated?")
    # A gap in the clock would move every onset after it.
    steps = np.diff(values[:, 0], prepend=values[0, 0] - 1 / SFREQ)
    wrong = np.abs(steps - 1 / SFREQ) > 0.2 / SFREQ
    _check_rows(path, wrong, lambda k: f"Time advances by {steps[k]:.4g} s; expected {1 / SFREQ:g} s.")
    flags = values[:, -1]
    _check_rows(path, ~np.isin(flags, (0, 1)), lambda k: f"FeedBackEvent is {flags[k]:g}; expected 0 or 1.")
    # pandas returns read-only views, so the signals are copied.
    return np.array(values[:, 1:-1].T, order="C"), np.flatnonzero(np.diff(flags, prepend=0) > 0)


def _check_header(path):
    """Raise unless the first line is the release's."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        header = [name.strip().strip('"') for name in stream.readline().rstrip("\r\n").split(",")]
    different = ", ".join(sorted(set(COLUMNS) ^ set(header))) or "other order or repeated names"
    require(header == COLUMNS, f"{path}, line 1: the columns differ from the release's ({different}).")
