"""A folder of results, read with patience: what is missing or not a number is said and left out."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from braindecode_censor.paper.identity import read_experiment
from braindecode_censor.paper.selection import NESTED, SELECTED, choose, scores_of_choice
from braindecode_censor.paper.tables import TableError, read_index, read_sealed, read_table
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.storage.trainings import TrainingCache

__all__ = ["BASELINE", "SELECTED", "Missing", "Results", "read_results"]

BASELINE = "baseline"
_NESTED = f"AutoTransfer ({NESTED})"


class Missing(LookupError):
    """What a figure needs is not there; the message says what, and how to get it."""

    def __str__(self):
        return str(self.args[0])


@dataclass(frozen=True)
class Results:
    """What a folder of results holds."""

    folder: Path
    identity: dict = field(default_factory=dict)
    provenance: dict = field(default_factory=dict)
    all_scores: pd.DataFrame | None = None
    chosen: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)

    @property
    def scores(self):
        """The scores, or a clear error."""
        if self.all_scores is None or self.all_scores.empty:
            raise Missing(f"{self.folder} holds no scores: call `autotransfer run --out {self.folder}` first")
        return self.all_scores

    @property
    def chance(self):
        """Balanced accuracy of guessing, or None if the folder does not know its classes."""
        classes = self.identity.get("classes")
        return 1 / len(classes) if classes else None

    @cached_property
    def decoders(self):
        """Name to setting (or one setting per subject) of what the figures compare."""
        found = {BASELINE: BASELINE}
        for method in MEASURES:
            mine = self.scores[(self.scores["method"] == method) & self.scores["score_valid"].notna()]
            if len(mine):
                found[method] = choose(mine, "paper")
        if "paper" in self.chosen:
            found[SELECTED] = self.chosen["paper"]
        if NESTED in self.chosen:
            subjects = {str(subject): subject for subject in self.scores["subject"]}
            choice = {subjects[key]: value for key, value in self.chosen[NESTED].items() if key in subjects}
            found[_NESTED] = pd.Series(choice)
        others = self.scores.loc[~self.scores["method"].isin([BASELINE, *MEASURES]), "setting"]
        return found | {name: name for name in others.unique()}

    @cached_property
    def by_subject(self):
        """Test score by subject and decoder, averaged over seeds; subjects in the order of the baseline."""
        columns = {}
        for name, choice in self.decoders.items():
            rows = scores_of_choice(self.scores, choice)
            if len(rows):
                columns[name] = rows.mean(axis=1)
        frame = pd.DataFrame(columns)
        # without a baseline the subjects keep their own order
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
        """Read what was seen in the stored weights."""
        remedy = f"call `python paper_figures/run_probes.py --results {self.folder}` first"
        return self.require(f"probes/{name}.csv", remedy)

    def histories(self, decoder):
        """Return the course of a decoder's trainings with the first seed."""
        try:
            index = read_index(self.folder)
        except TableError as reason:
            raise Missing(str(reason)) from None
        mine = index[index["setting"] == self.decoders[decoder]]
        cache, found = TrainingCache(self.folder / "trainings"), {}
        for row in mine[mine["seed"] == mine["seed"].min()].itertuples():
            record = cache.read(row.key)
            if record is not None:
                found[row.subject] = pd.DataFrame(record.get("history", {}))
        return found


def read_results(folder):
    """Read a folder of results, or what there is of it."""
    folder = Path(folder)
    if not folder.is_dir():
        raise Missing(
            f"results={str(folder)!r} is no folder: make one with `autotransfer demo --out {folder}`"
        )
    try:
        content = read_experiment(folder) if (folder / "experiment.json").is_file() else {}
        identity, made, notes = content.get("identity", {}), content.get("provenance", {}), []
        if not (folder / "scores.csv").is_file():
            notes.append(f"{folder} holds no scores.csv: only what needs no scores is drawn")
            return Results(folder, identity, made, None, {}, notes)
        scores, chosen = read_table(folder, "scores.csv"), json.loads(read_sealed(folder, "chosen.json"))
    except ValueError as reason:  # changed by hand: what was drawn of it would be about nothing
        raise Missing(str(reason)) from None
    bad = scores[scores["score"].isna()]
    for setting, rows in bad.groupby("setting", sort=False):
        total = int((scores["setting"] == setting).sum())
        notes.append(f"{setting}: {len(rows)} of {total} test scores are not a number and are left out")
    scores = scores[scores["score"].notna()]
    wanted = {entry["method"] for entry in identity.get("grid", [])} or set(MEASURES)
    present = set(scores["method"])
    expected = [BASELINE, *(method for method in MEASURES if method in wanted)]
    notes += [f"{method}: no scores, not drawn" for method in expected if method not in present]
    if chosen.get("paper", BASELINE) not in {BASELINE, *scores["setting"]}:
        notes.append(f"{chosen['paper']} was selected, but has no scores: AutoTransfer is not drawn")
    if scores["subject"].nunique() == 1:
        notes.append("one subject only: nothing can be said about transfer between people")
    return Results(folder, identity, made, scores, chosen, notes)
