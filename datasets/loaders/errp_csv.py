"""Read the CSV files of the Kaggle challenge and check every one of them."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from braindecode_censor.datasets._check import check_unique

SFREQ = 200.0
# As in the files' header, "P08" included.
_NAMES = (
    "Fp1 Fp2 AF7 AF3 AF4 AF8 F7 F5 F3 F1 Fz F2 F4 F6 F8 FT7 FC5 FC3 FC1 FCz FC2 FC4 FC6 FT8 T7 C5 C3 C1 Cz "
    "C2 C4 "
    "C6 T8 TP7 CP5 CP3 CP1 CPz CP2 CP4 CP6 TP8 P7 P5 P3 P1 Pz P2 P4 P6 P8 PO7 POz P08 O1 O2"
)
EEG_COLUMNS = _NAMES.split()
COLUMNS = ["Time", *EEG_COLUMNS, "EOG", "FeedBackEvent"]
_NAME = re.compile(r"Data_S(\d\d)_Sess(\d\d)\.csv")


def find_recordings(folder):
    """Return all recordings below a folder."""
    files = {}
    for path in sorted(Path(folder).rglob("Data_S*_Sess*.csv")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise ValueError(f"{path} is not called Data_SXX_SessYY.csv; rename it or move it away.")
        key = int(match[1]), int(match[2])
        if key in files:
            raise ValueError(
                f"subject {key[0]}, session {key[1]} is there twice: {files[key]} and {path}; keep one of "
                "them."
            )
        files[key] = path
    return files


def read_labels(path):
    """Read TrainLabels.csv."""
    try:
        table = pd.read_csv(path)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}); expected the columns IdFeedBack,Prediction."
        ) from error
    if list(table.columns) != ["IdFeedBack", "Prediction"]:
        raise ValueError(f"{path} has the columns {list(table.columns)}; expected IdFeedBack,Prediction.")
    wrong = np.flatnonzero(~table["Prediction"].isin([0, 1]))
    if len(wrong):
        raise ValueError(
            f"{path}, line {wrong[0] + 2}: Prediction is {table['Prediction'][wrong[0]]}; expected 0 or 1."
        )
    parts = table["IdFeedBack"].astype(str).str.extract(r"^S(\d\d)_Sess(\d\d)_FB(\d{3})$")
    wrong = np.flatnonzero(parts.isna().any(axis=1))
    if len(wrong):
        raise ValueError(
            f"{path}, line {wrong[0] + 2}: IdFeedBack is {table['IdFeedBack'][wrong[0]]!r}; expected "
            "S02_Sess01_FB001."
        )
    check_unique(table["IdFeedBack"], path, "IdFeedBack")
    return _by_session(parts.astype(int).to_numpy(), table["Prediction"].to_numpy(int), path)


def _by_session(keys, labels, path):
    """Return labels grouped by subject and session, checked to be numbered without gaps."""
    out = {}
    for subject, session in dict.fromkeys(map(tuple, keys[:, :2].tolist())):
        here = (keys[:, 0] == subject) & (keys[:, 1] == session)
        numbers = keys[here, 2]
        if sorted(numbers) != list(range(1, len(numbers) + 1)):
            raise ValueError(
                f"{path}: the feedbacks of S{subject:02d}_Sess{session:02d} are numbered {numbers.min()} to "
                f"{numbers.max()}, but there are {len(numbers)}; expected 1, 2, 3 without gaps. Truncated?"
            )
        out[subject, session] = labels[here][np.argsort(numbers)]
    return out


def read_recording(path):
    """Read one session."""
    _check_header(path)
    try:
        table = pd.read_csv(path, dtype=np.float64, engine="c")
    except (ValueError, pd.errors.ParserError) as error:
        raise ValueError(f"{path} {_locate(path, error)}") from error
    values = table.to_numpy()
    incomplete = np.flatnonzero(np.isnan(values[:, [0, -1]]).any(axis=1))
    if len(incomplete):
        raise ValueError(
            f"{path}, line {incomplete[0] + 2} ends early; expected {len(COLUMNS)} values. The file is "
            "truncated: "
            "download it again."
        )
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"{path}, line {row + 2}, column {COLUMNS[column]}: NaN or infinite; expected a number."
        )
    _check_clock(path, values[:, 0])
    # a copy of our own: pandas hands out read-only views
    return np.array(values[:, 1:-1].T, order="C"), _feedbacks(path, values[:, -1])


def _check_header(path):
    """Raise unless the first line is the release's own."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        header = [name.strip().strip('"') for name in stream.readline().rstrip("\r\n").split(",")]
    missing = [name for name in COLUMNS if name not in header]
    extra = [name for name in header if name not in COLUMNS]
    if missing or extra:
        raise ValueError(
            f"{path}, line 1: missing column {', '.join(missing) or 'none'}, unexpected column "
            f"{', '.join(extra) or 'none'}; expected Time, 56 EEG channels, EOG and FeedBackEvent."
        )
    check_unique(header, f"{path}, line 1", "the header")
    if header != COLUMNS:
        raise ValueError(
            f"{path}, line 1: the columns are in another order than in the release; restore the file."
        )


def _locate(path, error):
    """Say which line holds something that is no number."""
    for number, line in enumerate(open(path, encoding="utf-8", errors="replace"), 1):  # noqa: SIM115
        if number == 1:
            continue
        fields = line.rstrip("\r\n").split(",")
        if len(fields) != len(COLUMNS):
            return f"line {number} has {len(fields)} values; expected {len(COLUMNS)}."
        for name, text in zip(COLUMNS, fields):
            try:
                float(text or "nan")
            except ValueError:
                return f"line {number}, column {name}: {text!r} is not a number."
    return f"cannot be read: {error}"


def _check_clock(path, seconds):
    """Raise unless the rows are 5 ms apart: a gap would move every onset after it."""
    if len(seconds) < 2:
        raise ValueError(f"{path} holds {len(seconds)} rows; expected minutes of signal at {SFREQ:g} Hz.")
    step = np.diff(seconds)
    wrong = np.flatnonzero(np.abs(step - 1 / SFREQ) > 0.2 / SFREQ)
    if len(wrong):
        raise ValueError(
            f"{path}, line {wrong[0] + 3}: Time advances by {step[wrong[0]]:.4g} s; expected {1 / SFREQ:g} s "
            f"({SFREQ:g} Hz)."
        )


def _feedbacks(path, flag):
    """Return the samples at which FeedBackEvent rises to 1."""
    wrong = np.flatnonzero((flag != 0) & (flag != 1))
    if len(wrong):
        raise ValueError(
            f"{path}, line {wrong[0] + 2}: FeedBackEvent is {flag[wrong[0]]:g}; expected 0 or 1."
        )
    return np.flatnonzero(np.diff(np.r_[0, flag]) > 0)
