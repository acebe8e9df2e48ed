"""What the preset ``transfer`` leaves behind: scores, tables by tier, figures and a page."""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from braindecode_censor.report.tiers import as_markdown, tiers_table
from braindecode_censor.report.transfer_folder import draw_folder, read_folder
from braindecode_censor.report.transfer_page import write_transfer_page
from braindecode_censor.report.transfer_wording import describe_transfer
from braindecode_censor.search.transfer_scores import score_seeds
from braindecode_censor.storage.experiment import read_experiment
from braindecode_censor.storage.files import locked
from braindecode_censor.storage.tables import read_table, write_sealed, write_table

__all__ = ["TransferResult", "finish_transfer", "read_transfer_result"]


@dataclass(frozen=True)
class TransferResult:
    """What came out of the family on people held out.

    Parameters
    ----------
    table : DataFrame
        From :func:`~braindecode_censor.report.tiers.tiers_table`, one row per tier.
    scores : DataFrame
        One row per tier, decoder, seed and person.
    report : Path or None
        A page with tables and figures; None if it was not asked for.
    out : Path
        Folder of the experiment.
    chance : float
        Balanced accuracy of a decoder that guesses.
    notes : tuple of str
        Candidates that failed, and why.
    """

    table: pd.DataFrame
    scores: pd.DataFrame
    report: Path | None
    out: Path
    chance: float
    notes: tuple = ()

    def as_json(self):
        """Return everything as plain lists and dicts, for scripts.

        Returns
        -------
        content : dict
            ``table``, ``scores``, ``chance``, ``notes``, ``report`` and ``out``.
        """
        frames = {
            name: json.loads(getattr(self, name).to_json(orient="records", double_precision=15))
            for name in ("table", "scores")
        }
        places = {"report": self.report and str(self.report), "out": str(self.out)}
        return {**frames, "chance": self.chance, "notes": list(self.notes), **places}

    def describe(self):
        """Say what came out, for a terminal.

        Returns
        -------
        text : str
            A sentence, a table of at most 100 columns, and where to look.
        """
        return describe_transfer(self.table, self.chance, self.out, self.report)


def finish_transfer(out, found, report=True):
    """Score, and write tables and page.

    Parameters
    ----------
    out : Path
        Folder of the experiment, locked.
    found : dict of int to (dict of str to HeldOut, dict of str to str)
        From :meth:`~braindecode_censor.search.transfer_study.TransferStudy.run`.
    report : bool
        Whether to draw figures and write the page.

    Returns
    -------
    result : TransferResult
        The table, the scores and the report.
    """
    code = read_experiment(out)["identity"]["dataset_code"]
    scores = score_seeds(found).assign(recording=code)
    write_table(out, "scores.csv", scores)
    write_sealed(out, "table.md", as_markdown(tiers_table(scores)).encode())
    return _finish(out, scores, report)


def read_transfer_result(out, report=True):
    """Read a finished experiment and write its tables and page anew.

    Parameters
    ----------
    out : Path
        Folder of the experiment.
    report : bool
        Whether to draw figures and write the page.

    Returns
    -------
    result : TransferResult
        As the experiment returned it.
    """
    if not (out / "scores.csv").is_file():
        raise ValueError(f"out={str(out)!r} is not finished yet: call `autotransfer resume` first.")
    with locked(out):
        return _finish(out, read_table(out, "scores.csv"), report)


def _finish(out, scores, report):
    identity = read_experiment(out)["identity"]
    chance, notes = 1 / len(identity["classes"]), _failed(out / identity["dataset_code"])
    if not report:
        return TransferResult(tiers_table(scores), scores, None, out, chance, notes)
    folder = read_folder(out)
    page = write_transfer_page(folder, draw_folder(folder), notes)
    return TransferResult(folder.table, scores, page, out, chance, notes)


def _failed(folder):
    errors = {}
    for path in sorted(folder.glob("seed_*.json")):
        errors |= json.loads(path.read_text()).get("errors", {})
    return tuple(f"{name} failed and was left out: {error}" for name, error in errors.items())
