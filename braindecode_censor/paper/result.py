"""What an experiment leaves behind: the choice, tables as CSV, and a report."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from braindecode_censor.paper.identity import read_experiment
from braindecode_censor.paper.page import write_report
from braindecode_censor.paper.probing import leakage_of, probe
from braindecode_censor.paper.summary import choices, summarise
from braindecode_censor.paper.tables import TableError, read_index, read_table, write_sealed, write_table
from braindecode_censor.paper.wording import describe_result
from braindecode_censor.storage.files import locked
from braindecode_censor.storage.trainings import TrainingCache

__all__ = ["Result", "finish", "read_result"]


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
    report : Path or None
        A page with the table and figures; None if it was not asked for.
    out : Path
        Folder of the experiment.
    chance : float
        Balanced accuracy of a decoder that guesses.
    leakage : Series or None
        How often a fresh probe names the person from the code of ``baseline`` and ``selected``, and its ``chance``;
        None if the decoders could not be probed.
    notes : tuple of str
        What is missing or damaged.
    """

    selected: str
    chosen: dict
    table: pd.DataFrame
    scores: pd.DataFrame
    report: Path | None
    out: Path
    chance: float
    leakage: pd.Series | None = None
    notes: tuple = ()

    def as_json(self):
        """Return everything as plain lists and dicts, for scripts.

        Returns
        -------
        content : dict
            ``selected``, ``chosen``, ``table``, ``scores``, ``chance``, ``leakage``, ``notes``, ``report`` and ``out``.
        """
        frames = {
            "table": json.loads(self.table.reset_index().to_json(orient="records", double_precision=15)),
            "scores": json.loads(self.scores.to_json(orient="records", double_precision=15)),
        }
        leakage = None if self.leakage is None else self.leakage.to_dict()
        facts = {"chance": self.chance, "leakage": leakage, "notes": list(self.notes)}
        places = {"report": self.report and str(self.report), "out": str(self.out)}
        return {"selected": self.selected, "chosen": _plain(self.chosen), **frames, **facts, **places}

    def describe(self):
        """Say what came out, for a terminal.

        Returns
        -------
        text : str
            Sentences, the table, and where to look.
        """
        return describe_result(self)


def read_result(out, report=True):
    """Read a finished experiment and write its table and report anew.

    Parameters
    ----------
    out : Path
        Folder of the experiment.
    report : bool
        Whether to write the report.

    Returns
    -------
    result : Result or TransferResult
        As :meth:`AutoTransfer.run` returned it.
    """
    identity = read_experiment(out)["identity"]
    if not (out / "scores.csv").is_file():
        raise ValueError(f"out={str(out)!r} is not finished yet: call `autotransfer resume` first.")
    with locked(out):
        inner = read_table(out, "nested.csv") if identity["nested"] else None
        return finish(out, read_table(out, "scores.csv"), inner, report=report)


def finish(out, scores, inner=None, recording=None, report=True):
    """Select, and write tables and report."""
    chosen = choices(scores, inner)
    table = summarise(scores, chosen)
    write_table(out, "scores.csv", scores)
    write_table(out, "table.csv", table.reset_index())
    write_sealed(out, "chosen.json", json.dumps(_plain(chosen), indent=1).encode())
    chance = 1 / len(read_experiment(out)["identity"]["classes"])
    result = Result(chosen["paper"], chosen, table, scores, None, out, chance)
    return _with_report(result, recording) if report else result


def _with_report(result, recording):
    notes = damaged_trainings(result.out)
    try:
        probe(result.out, result.table, recording)
    except (ValueError, OSError) as error:
        # the dataset is elsewhere, or the trainings are: a report without leakage is still a report
        notes.append(f"The stored decoders were not probed: {error}")
    leakage = leakage_of(result.out, result.selected)
    page = write_report(result.out, result.table, result.scores, result.chosen, leakage, notes)
    return replace(result, report=page, leakage=leakage, notes=tuple(notes))


def damaged_trainings(out):
    """Name the trainings of the cross-validation that are damaged or gone."""
    try:
        index = read_index(out)
    except TableError as error:
        return [str(error)]
    cache = TrainingCache(out / "trainings")
    return [
        f"Training {row.key[:12]} ({row.setting}, seed {row.seed}, without subject {row.subject}) is damaged or gone: "
        f"`autotransfer resume --out {out}` trains it again."
        for row in index.itertuples()
        if cache.is_damaged(row.key)
    ]


def _plain(chosen):
    return {
        rule: c if isinstance(c, str) else {str(subject): name for subject, name in c.items()}
        for rule, c in chosen.items()
    }
