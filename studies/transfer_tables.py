"""Tables of the steps, the curves and the blocks of one class, as the documentation shows them."""

from pathlib import Path

import numpy as np
import pandas as pd
from transfer_person import TIERS, score
from transfer_steps import STEPS

from braindecode_censor.storage.files import write_atomically

#: Recording -> its name in tables, and what a single network should reach by tier.
NAMES = {"erp_uci_smni": "ERP", "ssvep_exo": "SSVEP", "emg_myo": "EMG"}
GOALS = {("ERP", "none"): 0.65, ("EMG", "none"): 0.80}
GOALS |= {("ERP", "unlabeled"): 0.66, ("SSVEP", "unlabeled"): 0.64, ("EMG", "unlabeled"): 0.87}
_SEEDS = "average of the seeds"


def score_people(parts):
    """Score every person."""
    rows, together = [], {}
    for part in parts:
        for tier, array in part["tiers"].items():
            key = part["recording"], part["step"], part["length"], tier
            rows += [(*key, str(part["seed"]), *row) for row in _people(array, part)]
            together.setdefault(key, (part, []))[1].append(array)
    for key, (part, arrays) in together.items():
        if len(arrays) > 1:
            rows += [(*key, _SEEDS, *row) for row in _people(np.mean(arrays, axis=0), part)]
    return pd.DataFrame(rows, columns=["recording", "step", "steps", "tier", "seed", "subject", "score"])


def _people(probabilities, part):
    for person in range(part["folds"]):
        mine = (part["people"] == person) & np.isfinite(probabilities).all(axis=1)
        if mine.any():
            yield person, score(part["y"][mine], probabilities[mine].argmax(axis=1))


def summarise(scores):
    """Sum the people up."""
    rows = []
    scores = scores.assign(kind=np.where(scores["seed"] == _SEEDS, "averaged", "single"))
    for key, part in scores.groupby(["recording", "step", "steps", "tier", "kind"], sort=False):
        people = part.groupby("subject")["score"].mean()
        seeds = part.groupby("seed")["score"].mean()
        spread = seeds.std(ddof=1) if len(seeds) > 1 else np.nan
        found = people.mean(), people.quantile(0.25), spread, len(people), part["seed"].nunique()
        rows.append((*key, *found))
    names = [
        "recording",
        "step",
        "steps",
        "tier",
        "kind",
        "mean",
        "lower_quartile",
        "seed_sd",
        "people",
        "seeds",
    ]
    return pd.DataFrame(rows, columns=names)


def steps_table(summary):
    """Return the steps as Markdown, one table for each tier."""
    texts = []
    recordings = list(dict.fromkeys(summary["recording"]))
    names = [NAMES.get(recording, recording) for recording in recordings]
    for tier, title in TIERS.items():
        head = ["step", "training steps", *names, *(f"{name}, averaged" for name in names)]
        lines = [_row(head), _row(["---"] * len(head))]
        here = summary[summary["tier"] == tier]
        for step in STEPS:
            mine = here[here["step"] == step]
            if mine.empty or (tier == "inputs" and not step.startswith(("subject", "euclidean"))):
                continue  # the others take nothing from the input of a person
            cells = [
                _cell(mine[(mine["recording"] == recording) & (mine["kind"] == kind)])
                for kind in ("single", "averaged")
                for recording in recordings
            ]
            lines.append(_row([step, "/".join(map(str, sorted(set(mine["steps"])))), *cells]))
        goals = [GOALS.get((name, tier)) for name in names]
        if any(goals):
            goals = ["" if goal is None else f"{goal:.2f}" for goal in goals]
            lines.append(_row(["*goal for single networks*", "", *goals, *[""] * len(names)]))
        texts.append(f"Known of the person: **{title}**\n\n" + "\n".join(lines))
    return "\n\n".join(texts)


def _row(cells):
    return f"| {' | '.join(cells)} |"


def _cell(row):
    if row.empty:
        return ""
    row = row.iloc[0]
    spread = "" if np.isnan(row["seed_sd"]) else f" ± {row['seed_sd']:.3f}"
    return f"{row['mean']:.3f} / {row['lower_quartile']:.3f}{spread}"


def curves(parts):
    """Sum the curves up."""
    rows = [(p["recording"], p["step"], *row) for p in parts for row in p["curves"]]
    table = pd.DataFrame(rows, columns=["recording", "step", "subject", "curve", "amount", "score"])
    keys = ["recording", "step", "curve", "amount"]
    people = table.groupby([*keys, "subject"], sort=False)["score"].mean()
    found = people.groupby(level=keys, sort=False).agg(["mean", "sem", "size"]).reset_index()
    return found.rename(columns={"sem": "error", "size": "people"})


def shift(parts):
    """Sum up what blocks of one class do."""
    rows = [(p["recording"], p["step"], *row, _balanced(p, *row[-2:])) for p in parts for row in p["shift"]]
    names = ["recording", "step", "subject", "block", "adapted", "prior", "own", "others", "balanced"]
    table = pd.DataFrame(rows, columns=names)
    keys = ["recording", "step", "block", "adapted", "prior"]
    people = table.groupby([*keys, "subject"], sort=False)[["own", "others", "balanced"]].mean()
    grouped = people.groupby(level=keys, sort=False)
    return grouped.mean().assign(people=grouped.size()).reset_index()


def _balanced(part, own, others):
    n_classes = len(np.unique(part["y"]))
    return (own + (n_classes - 1) * others) / n_classes


def shift_table(table):
    """Return what blocks of one class do as Markdown."""
    blocks = [block for block in dict.fromkeys(table["block"]) if block != "none"]
    head = ["recording", "normalised by", "adapted", "prior", *blocks]
    lines = [_row(head), _row(["---"] * len(head))]
    for (recording, step), part in table.groupby(["recording", "step"], sort=False):
        first = [NAMES.get(recording, recording), step.split()[0]]
        for (adapted, prior), mine in part.groupby(["adapted", "prior"], sort=False):
            told = [
                _recalls(mine if adapted == "nothing" else mine[mine["block"] == block]) for block in blocks
            ]
            lines.append(_row([*first, adapted, str(prior), *told]))
    return "\n".join(lines)


def _recalls(row):
    if row.empty:
        return ""
    row = row.iloc[0]
    return f"{row['balanced']:.3f} ({row['own']:.2f}, {row['others']:.2f})"


def write_tables(folder, parts):
    """Write everything that the documentation shows."""
    folder, summary = Path(folder), summarise(score_people(parts))
    steps, blocks, drawn = steps_table(summary), shift(parts), curves(parts)
    frames = {"transfer_steps.csv": summary, "transfer_curves.csv": drawn, "transfer_shift.csv": blocks}
    for name, frame in frames.items():
        write_atomically(folder / name, frame.round(4).to_csv(index=False).encode())
    texts = {"transfer_steps.md": steps}
    if not blocks.empty:
        texts["transfer_shift.md"] = shift_table(blocks)
    for name, text in texts.items():
        write_atomically(folder / name, f"{text}\n".encode())
    return "\n\n".join(texts.values())


def write_speed(folder, rows):
    """Write what augmentation costs."""
    names = {
        "what": "training",
        "size": "size",
        "plain": "without, ms a step",
        "augmented": "with, ms a step",
    }
    names |= {"ratio": "ratio", "goal": "at most"}
    lines = [_row(list(names.values())), _row(["---"] * len(names))]
    for row in rows:
        cells = [f"{row[k]:.3g}" if isinstance(row[k], float) else str(row[k]) for k in names]
        lines.append(_row(cells))
    text = "\n".join(lines)
    write_atomically(Path(folder) / "augment_speed.md", f"{rows[0]['machine']}\n\n{text}\n".encode())
    return text
