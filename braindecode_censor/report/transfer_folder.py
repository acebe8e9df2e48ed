"""A folder of the family's results: its tables and figures are made anew from scores and held-out probabilities."""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from braindecode_censor.figures.product import render
from braindecode_censor.figures.style import style
from braindecode_censor.report import transfer_figures as draw
from braindecode_censor.report.tiers import as_markdown, tiers_table
from braindecode_censor.search.heldout_file import read_heldout
from braindecode_censor.search.transfer_scores import weigh
from braindecode_censor.storage.files import write_atomically

__all__ = ["FIGURES", "TransferFolder", "draw_folder", "read_folder"]

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
        "How much every candidate counts for tomorrow's person, by what is known of this person.",
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
        From :func:`~braindecode_censor.report.tiers.tiers_table`.
    weights : DataFrame
        Columns recording, seed, target, decoder, kind and weight.
    learning : DataFrame or None
        Columns recording, people, target, person, decoder and score; None if no curve was trained.
    """

    folder: Path
    scores: pd.DataFrame
    table: pd.DataFrame
    weights: pd.DataFrame
    learning: pd.DataFrame | None


def read_folder(folder):
    """Read a folder of ``run_transfer.py`` or of the preset ``transfer``.

    Parameters
    ----------
    folder : Path
        With ``scores.csv``, and a folder of held-out probabilities for every recording.

    Returns
    -------
    found : TransferFolder
        What it holds.
    """
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
    table = tiers_table(scores, pd.DataFrame(notes) if notes else None)
    return TransferFolder(
        folder,
        scores,
        table,
        pd.concat(weights, ignore_index=True) if weights else pd.DataFrame(),
        pd.concat(curves, ignore_index=True) if curves else None,
    )


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
    files["weights.csv"] = found.weights.to_csv(index=False, float_format="%.4g")
    for name, text in files.items():
        write_atomically(found.folder / name, text.encode())
    figures = {}
    with style():
        for name, (function, table, *_) in FIGURES.items():
            numbers = getattr(found, table)
            if numbers is None or numbers.empty:
                continue
            for ending, content in render(function(numbers)).items():
                write_atomically(found.folder / f"transfer_{name}.{ending}", content)
            figures[name] = found.folder / f"transfer_{name}.png"
    return figures
