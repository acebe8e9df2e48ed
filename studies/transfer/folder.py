"""A folder of the family's results: its tables and figures are made anew from scores and held-out probabilities."""

import gzip
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from braindecode_censor.figures.product import render
from braindecode_censor.figures.style import RECORDING_TITLES, style
from braindecode_censor.storage.files import write_atomically
from studies.censoring import candidates as censored_candidates
from studies.transfer import figures as draw
from studies.transfer.heldout_file import read_heldout
from studies.transfer.scores import weigh
from studies.transfer.tiers_table import as_markdown, tiers_table

__all__ = ["FIGURES", "TransferFolder", "draw_folder", "keep_tables", "read_folder", "write_docs"]

#: Tables from which all others and the figures can be made without held-out probabilities.
_KEPT = ("scores", "weights", "cost")

#: Name -> what it draws, from which table, its title, and what is to be seen.
FIGURES = {
    "leaderboard": (
        draw.draw_leaderboard,
        "scores",
        "Leaderboard",
        "Every candidate and the three ways to combine them, on people they have not seen. Combinations are strictly "
        "nested: neither choice nor weights have seen the person.",
    ),
    "people": (
        draw.draw_people,
        "scores",
        "Person by person",
        "Every point is a person; above the line the family, with all unlabelled trials of the person, decodes better "
        "than the paper's protocol.",
    ),
    "tiers": (
        draw.draw_tiers,
        "scores",
        "Gain by what is known of the person",
        "Mean and standard error over people. The network of the paper's protocol is adapted to the person here, too, "
        "in every tier but the first.",
    ),
    "weights": (
        draw.draw_weights,
        "weights",
        "Weights in the ensemble",
        "How much every candidate counts for the next person, by what is known of this person.",
    ),
    "learning": (
        draw.draw_learning,
        "learning",
        "Learning curve over people",
        "How well new people are decoded when fewer people were recorded. If the curve still rises at its right end, "
        "record more people. The candidate was chosen by the right end, which flatters it there.",
    ),
}


@dataclass
class TransferFolder:
    """What a folder holds.

    Parameters
    ----------
    folder : Path
        The folder.
    scores : DataFrame
        Columns recording, target, decoder, kind, person, seed and score.
    table : DataFrame
        From :func:`~studies.transfer.tiers_table.tiers_table`.
    weights : DataFrame
        Columns recording, seed, target, decoder, kind and weight.
    learning : DataFrame or None
        Columns recording, people, target, person, decoder and score; None if no curve was trained.
    cost : DataFrame or None
        With columns recording, seed, trainings and seconds; None if nobody has noted them.
    """

    folder: Path
    scores: pd.DataFrame
    table: pd.DataFrame
    weights: pd.DataFrame
    learning: pd.DataFrame | None
    cost: pd.DataFrame | None = None

    @cached_property
    def censored(self):
        """What censoring adds to a candidate, in Markdown; empty if nothing was censored."""
        return censored_candidates.as_markdown(censored_candidates.censored_table(self.scores))


def read_folder(folder):
    """Read a folder of ``run_transfer.py`` or of the preset ``transfer``.

    Parameters
    ----------
    folder : Path
        With ``scores.csv``, and a folder of held-out probabilities for every recording; or with what
        :func:`keep_tables` has written.

    Returns
    -------
    found : TransferFolder
        What it holds.
    """
    if not (folder / "scores.csv").is_file() and (folder / "scores.csv.gz").is_file():
        return _read_kept(folder)
    scores = pd.read_csv(folder / "scores.csv")
    notes, weights, curves = [], [], []
    for recording in dict.fromkeys(scores["recording"]):
        for path in sorted((folder / recording).glob("seed_*.npz")):
            name = {"recording": recording, "seed": int(path.stem.split("_")[1])}
            if path.with_suffix(".json").is_file():
                notes.append({**name, **json.loads(path.with_suffix(".json").read_text())})
            weights.append(weigh(*read_heldout(path)).assign(**name))
        if (folder / recording / "learning.csv").is_file():
            curve = pd.read_csv(folder / recording / "learning.csv")
            if curve["people"].nunique() > 1:  # four people are too few for a curve
                curves.append(curve.assign(recording=recording))
    cost = pd.DataFrame(notes) if notes else None
    return TransferFolder(
        folder,
        scores,
        tiers_table(scores, cost),
        pd.concat(weights, ignore_index=True) if weights else pd.DataFrame(),
        pd.concat(curves, ignore_index=True) if curves else None,
        cost,
    )


def _read_kept(folder):
    files = {name: folder / f"{name}.csv.gz" for name in _KEPT}
    kept = {name: pd.read_csv(file) for name, file in files.items() if file.is_file()}
    scores, cost = kept["scores"], kept.get("cost")
    return TransferFolder(
        folder, scores, tiers_table(scores, cost), kept.get("weights", pd.DataFrame()), None, cost
    )


def keep_tables(found, folder):
    """Write the small part of the results from which tables and figures can be made anew.

    Parameters
    ----------
    found : TransferFolder
        From :func:`read_folder`.
    folder : Path
        Where to: ``scores.csv.gz``, ``weights.csv.gz`` and ``cost.csv.gz``, which :func:`read_folder` reads. Learning
        curves are no part of it.
    """
    for name in _KEPT:
        table = getattr(found, name)
        if table is None or table.empty:
            continue
        if name == "cost":
            table = table[["recording", "seed", "trainings", "seconds"]]
        text = table.to_csv(index=False, float_format="%.6g").encode()
        write_atomically(folder / f"{name}.csv.gz", gzip.compress(text, mtime=0))


def draw_folder(found):
    """Write the table of tiers, the weights, and all figures that can be drawn.

    Parameters
    ----------
    found : TransferFolder
        From :func:`read_folder`.

    Returns
    -------
    figures : dict of str to Path
        Name of a figure -> its PNG file; a PDF lies beside it.
    """
    files = {"tiers.csv": found.table.to_csv(index=False, float_format="%.4g")}
    files["tiers.md"] = as_markdown(found.table)
    if found.censored:
        files["censored.md"] = found.censored
    files["weights.csv"] = found.weights.to_csv(index=False, float_format="%.4g")
    for name, text in files.items():
        write_atomically(found.folder / name, text.encode())
    figures = {}
    for name, drawn in _draw(found):
        for ending, content in drawn.items():
            write_atomically(found.folder / f"transfer_{name}.{ending}", content)
        figures[name] = found.folder / f"transfer_{name}.png"
    return figures


def _draw(found):
    """Yield the name of a figure and its files: ending to content."""
    with style():
        for name, (function, table, *_) in FIGURES.items():
            numbers = getattr(found, table)
            if numbers is not None and not numbers.empty:
                yield name, render(function(numbers))


def write_docs(found, docs):
    """Write what the documentation shows, with its names of the recordings, and the tables that it is made from.

    Parameters
    ----------
    found : TransferFolder
        From :func:`read_folder`.
    docs : Path
        Folder of the documentation: gets ``results/tiers.md``, ``results/transfer``, where some were censored
        ``results/censored_candidates.md``, and in ``_static`` all figures but learning curves.
    """
    keep_tables(found, docs / "results" / "transfer")
    tables = {name: getattr(found, name) for name in ("scores", "table", "weights")}
    titled = {name: table.replace({"recording": RECORDING_TITLES}) for name, table in tables.items()}
    shown = replace(found, **titled, learning=None)
    write_atomically(docs / "results" / "tiers.md", as_markdown(shown.table).encode())
    if shown.censored:
        write_atomically(docs / "results" / "censored_candidates.md", shown.censored.encode())
    for name, drawn in _draw(shown):
        write_atomically(docs / "_static" / f"transfer_{name}.png", drawn["png"])
