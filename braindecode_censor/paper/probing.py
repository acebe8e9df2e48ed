"""What the stored weights still tell: who leaks, what the code looks like, how sure each subject's gain is.

Nothing is trained here. The decoders are read from the folder of an experiment and shown its trials once more.
"""

import json

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from braindecode_censor.paper.data import Recording, digest_of_data, make_dataset, make_paradigm
from braindecode_censor.paper.identity import read_experiment
from braindecode_censor.paper.selection import SELECTED
from braindecode_censor.paper.tables import (
    TableError,
    is_intact,
    read_index,
    read_sealed,
    read_table,
    write_sealed,
    write_table,
)
from braindecode_censor.penalties.measures import MEASURES
from braindecode_censor.storage.trainings import TrainingCache

__all__ = ["TABLES", "leakage_of", "load_recording", "probe"]

#: Names of the tables in ``probes/``.
TABLES = ("leakage", "codes", "gains", "cells")
_MARK = "probes/probed.json"

# Enough to read a leakage to a few percent; more would cost minutes, and hours where there are hundreds of people.
_MOST_TRIALS, _MOST_PEOPLE, _MOST_FOLDS = 600, 40, 12
_DRAWS = 2000
_PROBING = {"probes": ("logistic",), "n_splits": 3}  # the quick one: there are many decoders


def load_recording(out):
    """Read the trials of an experiment again."""
    known = read_experiment(out)["identity"]
    if known["dataset"] is None:
        raise ValueError(
            f"out={str(out)!r} was made with a dataset object, which the folder does not hold: call AutoTransfer "
            "with the same arguments once more, and it is probed without training anything."
        )
    dataset = make_dataset(known["dataset"], known["dataset_options"])
    recording = Recording(dataset, make_paradigm(known["paradigm"], dataset), out)
    if digest_of_data(recording) != known["data"]:
        raise ValueError(
            f"dataset {known['dataset']!r} no longer gives the trials that out={str(out)!r} was trained on: "
            "restore the files, or the paradigm if it was one of your own."
        )
    return recording


def probe(out, table, recording=None):
    """Look at the stored decoders, and write what is seen to ``probes/``.

    Notes
    -----
    The same trials, of all subjects, go through all decoders, so chance and the probes' task are the same for
    each: one subject of them was never seen, one only validated. Where there are more than 40 subjects, 40 of
    them are looked at, and of more than 12 folds, 12. Leakage and codes are those of the first seed. Gains are
    those of all subjects. What was probed before is not probed again.
    """
    index, folder, cache = read_index(out), out / "probes", TrainingCache(out / "trainings")
    decoders = {
        name: table.loc[name, "setting"] for name in ["baseline", *MEASURES, SELECTED] if name in table.index
    }
    index = index[index["setting"].isin(set(decoders.values()))]
    if index.empty:
        raise ValueError(
            f"out={str(out)!r} has no trainings/index.csv for its decoders: call `autotransfer resume` once, which "
            "writes it and trains nothing that is finished."
        )
    asked = json.dumps({"decoders": decoders, "keys": sorted(index["key"])}, indent=1).encode()
    names = {name: f"probes/{name}.csv" for name in TABLES}
    intact = all(is_intact(out, name) for name in (_MARK, *names.values()))
    if intact and read_sealed(out, _MARK) == asked:
        return folder
    recording = load_recording(out) if recording is None else recording
    index = index[[not cache.is_damaged(key) for key in index["key"]]]
    # One thread: sums round the same everywhere, and threads that wait for each other would take longer.
    with threadpool_limits(1):
        tables = {
            "leakage": _leakage(decoders, index, cache, recording),
            "codes": _codes(decoders, index, cache, recording),
            "gains": _gains(decoders, index, cache, recording),
            "cells": _cells(recording),
        }
    for name, frame in tables.items():
        write_table(out, names[name], frame)
    write_sealed(out, _MARK, asked)  # last, so that a crash before it means doing it again
    return folder


def leakage_of(out, selected):
    """Return how often a linear probe names the person from the whole code, on average over folds."""
    try:
        frame = read_table(out, "probes/leakage.csv")
    except TableError:
        return None
    if frame.empty:
        return None
    frame = frame[(frame["part"] == "all") & (frame["view"] == "marginal")]
    means = frame.groupby("setting")["accuracy"].mean()
    if not {"baseline", selected} <= set(means.index):
        return None
    values = {"baseline": means["baseline"], "selected": means[selected], "chance": frame["chance"].mean()}
    return pd.Series(values, dtype=float)


def _leakage(decoders, index, cache, recording):
    shown = _sample(recording)
    X, y, subjects = recording.X[shown], recording.y[shown], recording.subjects[shown]
    first = index[index["seed"] == index["seed"].min()]
    frames = []
    for setting in dict.fromkeys(decoders.values()):
        # the halves of complementary censoring cost as much again each: only of what was selected
        options = _PROBING if setting == decoders.get(SELECTED) else {**_PROBING, "halves": False}
        mine = first[first["setting"] == setting]
        for row in mine.iloc[_spread(len(mine), _MOST_FOLDS)].itertuples():
            frame = cache.load(row.key, device="cpu").subject_leakage(X, y, subjects, **options)
            frame.insert(0, "setting", setting)
            frames.append(frame.assign(subject=row.subject, seed=row.seed))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _codes(decoders, index, cache, recording):
    """Return the first two principal components of baseline and selected decoder, of the first fold."""
    shown = _sample(recording)
    first = index[index["seed"] == index["seed"].min()]
    frames = []
    for name in ("baseline", SELECTED):
        mine = first[first["setting"] == decoders.get(name)]
        if mine.empty:
            continue
        decoder = cache.load(mine["key"].iloc[0], device="cpu")
        z = decoder.features(recording.X[shown], subjects=recording.subjects[shown])
        pca = PCA(min(2, *z.shape), svd_solver="full").fit(z)
        points = pca.transform(z)
        frame = pd.DataFrame({"decoder": name, "left_out": mine["subject"].iloc[0]}, index=range(len(points)))
        frame["subject"] = recording.subjects[shown]
        frame["label"] = np.asarray(recording.classes)[recording.y[shown]]
        frame["first"], frame["second"] = points[:, 0], points[:, -1]
        frames.append(frame.assign(explained=pca.explained_variance_ratio_.sum()))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _gains(decoders, index, cache, recording):
    """Return the gain of every subject, with the percentile interval of a bootstrap over its trials.

    Both decoders and all seeds are resampled together, class by class, so the trials' difficulty cancels.
    """
    rows = []
    rng = np.random.default_rng(0)
    selected = decoders.get(SELECTED, "baseline")
    keys = index.groupby(["setting", "subject"])["key"].apply(list).to_dict()
    for subject in recording.all_subjects:
        mine = recording.subjects == subject
        X, y = recording.X[mine], recording.y[mine]
        right = {}
        for setting in ("baseline", selected):
            hits = [
                _answers(cache, key, X, len(recording.classes)) == y
                for key in keys.get((setting, subject), ())
            ]
            right[setting] = np.mean(hits, axis=0) if hits else np.full(len(y), np.nan)
        difference = right[selected] - right["baseline"]
        classes = [difference[y == label] for label in np.unique(y)]
        draws = [rng.choice(part, (_DRAWS, len(part))).mean(axis=1) for part in classes]
        low, high = np.percentile(np.mean(draws, axis=0), [2.5, 97.5])
        rows.append((subject, np.mean([part.mean() for part in classes]), low, high, len(y)))
    return pd.DataFrame(rows, columns=["subject", "gain", "low", "high", "trials"])


def _answers(cache, key, X, n_classes):
    """Return the number of the class that a decoder names for every trial, as it was kept or by asking again."""
    kept = cache.heldout(key).get("probabilities")
    if kept is not None and kept.shape == (len(X), n_classes):  # else it has not learnt all classes
        return kept.argmax(axis=1)
    return cache.load(key, device="cpu").predict(X)


def _spread(n, most):
    """Return at most so many places of n, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def _cells(recording):
    rows = [
        (subject, name, int(((recording.subjects == subject) & (recording.y == number)).sum()))
        for subject in recording.all_subjects
        for number, name in enumerate(recording.classes)
    ]
    return pd.DataFrame(rows, columns=["subject", "label", "trials"])


def _sample(recording):
    """Return the indices of about `_MOST_TRIALS` trials, as many of each subject, drawn once and for all."""
    people = [recording.all_subjects[k] for k in _spread(len(recording.all_subjects), _MOST_PEOPLE)]
    share = max(8, _MOST_TRIALS // len(people))
    rng = np.random.default_rng(0)
    parts = []
    for subject in people:
        mine = np.flatnonzero(recording.subjects == subject)
        parts.append(np.sort(rng.permutation(mine)[:share]))
    return np.concatenate(parts)
