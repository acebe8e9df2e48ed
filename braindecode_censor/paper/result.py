"""Results of an experiment: what the rules select, tables as CSV, and the report."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from braindecode_censor.paper.identity import read_experiment
from braindecode_censor.paper.page import write_report
from braindecode_censor.paper.probing import leakage_of, probe
from braindecode_censor.paper.selection import apply_rules, summarise
from braindecode_censor.paper.stored import open_store
from braindecode_censor.paper.tables import read_index, read_table, write_sealed, write_table
from braindecode_censor.paper.wording import describe_result
from braindecode_censor.storage.files import locked

__all__ = ["Result", "finish", "read_result"]


@dataclass(frozen=True)
class Result:
    """Results of an experiment.

    Parameters
    ----------
    selected : str
        The configuration that the paper's rule selects.
    selected_by_rule : dict of str to str
        The configuration that every rule selects.
    table : DataFrame
        Baseline, methods and rules side by side.
    scores : DataFrame
        One row per configuration, seed and test subject.
    report : Path or None
        The report; None if it was not requested.
    out : Path
        Folder of the experiment.
    chance : float
        Balanced accuracy of guessing.
    leakage : Series or None
        Subject accuracy of a fresh probe on the latent code of ``baseline`` and ``selected``, and its ``chance``; None
        if the decoders could not be probed.
    notes : tuple of str
        Missing or damaged files.
    """

    selected: str
    selected_by_rule: dict
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
            The attributes under their names.
        """
        content = vars(self) | {"notes": list(self.notes), "report": self.report and str(self.report)}
        for name, frame in (("table", self.table.reset_index()), ("scores", self.scores)):
            content[name] = json.loads(frame.to_json(orient="records", double_precision=15))
        leakage = None if self.leakage is None else self.leakage.to_dict()
        return content | {"leakage": leakage, "out": str(self.out)}

    def describe(self):
        """Return the results as text for a terminal.

        Returns
        -------
        text : str
            Sentences, the table, and the paths of results and report.
        """
        return describe_result(self)


def read_result(out, report=True):
    """Read a finished experiment and write its table and report again.

    Parameters
    ----------
    out : Path
        Folder of the experiment.
    report : bool
        Whether to write the report.

    Returns
    -------
    result : Result
        As :meth:`AutoTransfer.run` returned it.
    """
    read_experiment(out)  # an error names what is missing or was changed
    if not (out / "scores.csv").is_file():
        raise ValueError(f"out={str(out)!r} is not finished: call `autotransfer resume` first.")
    with locked(out):
        return finish(out, read_table(out, "scores.csv"), report=report)


def finish(out, scores, data=None, report=True):
    """Apply the rules and write tables and report."""
    selected_by_rule = apply_rules(scores)
    table = summarise(scores, selected_by_rule)
    write_table(out, "scores.csv", scores)
    write_table(out, "table.csv", table.reset_index())
    write_sealed(out, "selected.json", json.dumps(selected_by_rule, indent=1).encode())
    chance = 1 / len(read_experiment(out)["identity"]["classes"])
    result = Result(selected_by_rule["paper"], selected_by_rule, table, scores, None, out, chance)
    return _with_report(result, data) if report else result


def _with_report(result, data):
    notes = []
    try:
        notes += _damaged_trainings(result.out)
        probe(result.out, result.table, data)
    except (ValueError, OSError) as error:
        # The dataset or the trainings may be elsewhere: the report does without subject leakage then.
        notes.append(f"The stored decoders were not probed: {error}")
    leakage = leakage_of(result.out, result.selected)
    result = replace(result, leakage=leakage, notes=tuple(notes))
    return replace(result, report=write_report(result))


def _damaged_trainings(out):
    """Return one note per training of the cross-validation that is damaged or missing."""
    store = open_store(out)
    return [
        f"Training {row.key[:12]} ({row.setting}, seed {row.seed}, without subject {row.subject}) is damaged or "
        f"missing: `autotransfer resume --out {out}` repeats it."
        for row in read_index(out).itertuples()
        if store.read(row.key) is None
    ]
