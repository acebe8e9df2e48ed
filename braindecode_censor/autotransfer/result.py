"""What an experiment leaves behind: the choice, tables as CSV, and a report."""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from braindecode_censor.report.page import write_report
from braindecode_censor.search.summary import choices, summarise
from braindecode_censor.storage.files import read_experiment, write_atomically

__all__ = ["Result", "finish", "read_result", "write_csv"]


@dataclass(frozen=True)
class Result:
    """What came out of an experiment.

    Parameters
    ----------
    selected : str
        The setting that the paper's rule chooses.
    chosen : dict of str to str or Series
        What every rule chooses.
    table : DataFrame
        Baseline, methods and rules side by side.
    scores : DataFrame
        One row per setting, seed and test subject.
    report : Path
        A page with the table and a figure.
    out : Path
        Folder of the experiment.
    """

    selected: str
    chosen: dict
    table: pd.DataFrame
    scores: pd.DataFrame
    report: Path
    out: Path

    def as_json(self):
        """Return everything as plain lists and dicts, for scripts.

        Returns
        -------
        content : dict
            ``selected``, ``chosen``, ``table``, ``scores``, ``report`` and ``out``.
        """
        chosen = {rule: c if isinstance(c, str) else c.to_dict() for rule, c in self.chosen.items()}
        frames = {
            "table": json.loads(self.table.reset_index().to_json(orient="records", double_precision=15)),
            "scores": json.loads(self.scores.to_json(orient="records", double_precision=15)),
        }
        places = {"report": str(self.report), "out": str(self.out)}
        return {"selected": self.selected, "chosen": chosen, **frames, **places}


def read_result(out):
    """Read a finished experiment and write its table and report anew.

    Parameters
    ----------
    out : Path
        Folder of the experiment.

    Returns
    -------
    result : Result
        As :meth:`AutoTransfer.run` returned it.
    """
    read_experiment(out)
    path = out / "scores.csv"
    if not path.is_file():
        raise ValueError(f"out={str(out)!r} is not finished yet: call `autotransfer resume` first.")
    inner = out / "nested.csv"
    return finish(out, pd.read_csv(path), pd.read_csv(inner) if inner.is_file() else None)


def finish(out, scores, inner=None, recording=None):
    """Select, and write tables and report.

    Parameters
    ----------
    out : Path
        Folder of the experiment.
    scores, inner : DataFrame
        Scores of the cross-validation, and of the nested folds if there are any.
    recording : Recording or None
        The trials, for the report's look at the decoders; None reads them again if they are needed.

    Returns
    -------
    result : Result
        The choice, the table, the scores and the report.
    """
    chosen = choices(scores, inner)
    table = summarise(scores, chosen)
    write_csv(out / "scores.csv", scores)
    write_csv(out / "table.csv", table.reset_index())
    content = {rule: c if isinstance(c, str) else c.to_dict() for rule, c in chosen.items()}
    write_atomically(out / "chosen.json", json.dumps(content, indent=1).encode())
    report = write_report(out, table, scores, chosen, recording)
    return Result(chosen["paper"], chosen, table, scores, report, out)


def write_csv(path, frame):
    """Write a frame without its index, in full or not at all.

    Parameters
    ----------
    path : Path
        File.
    frame : DataFrame
        Content.
    """
    write_atomically(path, frame.to_csv(index=False).encode())
