"""A folder of results as the figures need it. Notes name what is missing or not a number and is left out."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from braindecode_censor.paper.identity import read_experiment
from braindecode_censor.paper.selection import BASELINE, SELECTED, decoders_of, scores_of
from braindecode_censor.paper.stored import read_training
from braindecode_censor.paper.tables import TableError, read_index, read_sealed, read_table
from braindecode_censor.penalties.measures import MEASURES

__all__ = ["BASELINE", "SELECTED", "Missing", "Results", "read_results"]


class Missing(LookupError):
    """A figure lacks its data; the message names them and the command that makes them."""

    def __str__(self):
        return str(self.args[0])


@dataclass(frozen=True)
class Results:
    """Tables of a folder of results."""

    folder: Path
    identity: dict = field(default_factory=dict)
    provenance: dict = field(default_factory=dict)
    all_scores: pd.DataFrame | None = None
    selected_by_rule: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)

    @property
    def scores(self):
        """The scores; an error if there are none."""
        if self.all_scores is None or self.all_scores.empty:
            raise Missing(f"{self.folder} holds no scores: call `autotransfer run --out {self.folder}` first")
        return self.all_scores

    @property
    def chance(self):
        """Balanced accuracy of guessing, or None without classes."""
        classes = self.identity.get("classes")
        return 1 / len(classes) if classes else None

    @cached_property
    def decoders(self):
        """Decoder -> configuration, for all decoders that the figures compare."""
        paper = {rule: name for rule, name in self.selected_by_rule.items() if rule == "paper"}
        return decoders_of(self.scores, paper)

    @cached_property
    def by_subject(self):
        """Test score by subject and decoder, averaged over seeds; subjects in the order of the baseline."""
        tables = {name: scores_of(self.scores, setting) for name, setting in self.decoders.items()}
        frame = pd.DataFrame({name: table.mean(axis=1) for name, table in tables.items() if len(table)})
        return frame.sort_values(BASELINE, kind="stable") if BASELINE in frame else frame

    def require(self, path, remedy):
        """Read a CSV file of the folder."""
        if not (self.folder / path).is_file():
            raise Missing(f"{self.folder} holds no {path}: {remedy}")
        try:
            return read_table(self.folder, path)
        except TableError as reason:
            raise Missing(str(reason)) from None

    def probed(self, name):
        """Read a table of ``probes/``."""
        remedy = f"call `autotransfer report --out {self.folder}` first"
        return self.require(f"probes/{name}.csv", remedy)

    def histories(self, decoder):
        """Return the history of a decoder's trainings with the first seed, by test subject."""
        try:
            index = read_index(self.folder)
        except TableError as reason:
            raise Missing(str(reason)) from None
        folds = index[index["setting"] == self.decoders[decoder]]
        folds = folds[folds["seed"] == folds["seed"].min()]
        results = {fold.subject: read_training(self.folder, fold.key) for fold in folds.itertuples()}
        return {
            subject: pd.DataFrame(result.record.get("history", {}))
            for subject, result in results.items()
            if result is not None
        }


def read_results(folder):
    """Read the tables of a folder of results, as far as they exist."""
    folder = Path(folder)
    if not folder.is_dir():
        raise Missing(
            f"results={str(folder)!r} is no folder: make one with `autotransfer demo --out {folder}`"
        )
    try:
        content = read_experiment(folder) if (folder / "experiment.json").is_file() else {}
        identity, provenance = content.get("identity", {}), content.get("provenance", {})
        if not (folder / "scores.csv").is_file():
            note = f"{folder} holds no scores.csv: only figures that need no scores are drawn"
            return Results(folder, identity, provenance, notes=[note])
        scores, selected = read_table(folder, "scores.csv"), json.loads(read_sealed(folder, "selected.json"))
    except ValueError as reason:  # A file that was changed by hand is not drawn.
        raise Missing(str(reason)) from None
    valid = scores[scores["score"].notna()]
    methods = {entry["method"] for entry in identity.get("grid", [])} or set(MEASURES)
    notes = _notes(scores, valid, [BASELINE, *(method for method in MEASURES if method in methods)], selected)
    return Results(folder, identity, provenance, valid, selected, notes)


def _notes(scores, valid, methods, selected):
    notes = []
    for setting, rows in scores[scores["score"].isna()].groupby("setting", sort=False):
        total = int((scores["setting"] == setting).sum())
        notes.append(f"{setting}: {len(rows)} of {total} test scores are not a number and are left out")
    present = set(valid["method"])
    notes += [f"{method}: no scores, not drawn" for method in methods if method not in present]
    if selected.get("paper", BASELINE) not in {BASELINE, *valid["setting"]}:
        notes.append(f"{selected['paper']} was selected, but has no scores: AutoTransfer is not drawn")
    if valid["subject"].nunique() == 1:
        notes.append("one subject only: transfer between subjects cannot be compared")
    return notes
