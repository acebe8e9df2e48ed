"""Probes of the stored decoders: subject leakage, latent codes, and the gain of every subject. Nothing is trained."""

import json

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from braindecode_censor.paper.data import ExperimentData, make_dataset, make_paradigm
from braindecode_censor.paper.identity import read_experiment
from braindecode_censor.paper.selection import BASELINE, SELECTED
from braindecode_censor.paper.stored import read_training
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

__all__ = ["TABLES", "leakage_of", "load_data", "load_decoder", "probe"]

#: Names of the tables in ``probes/``.
TABLES = ("leakage", "codes", "gains", "cells")
_REQUEST = "probes/probed.json"

# Enough for a leakage to a few percent; more would cost minutes, and hours with hundreds of subjects.
_MAX_TRIALS, _MAX_SUBJECTS, _MAX_FOLDS = 600, 40, 12
_N_DRAWS = 2000
_PROBE_OPTIONS = {"probes": ("logistic",), "n_splits": 3}  # the fastest probe, since there are many decoders


def load_data(out):
    """Read the trials of an experiment again."""
    identity = read_experiment(out)["identity"]
    if identity["dataset"] is None:
        raise ValueError(
            f"out={str(out)!r} was made with a dataset object, which the folder does not hold: call AutoTransfer again "
            "with the same arguments. It probes the decoders and trains nothing."
        )
    dataset = make_dataset(identity["dataset"], identity["dataset_options"])
    data = ExperimentData(dataset, make_paradigm(identity["paradigm"], dataset), out)
    if data.digest != identity["data"]:
        raise ValueError(
            f"dataset {identity['dataset']!r} does not give the trials that out={str(out)!r} was trained on: "
            "restore the files, or the paradigm if it was your own."
        )
    return data


def load_decoder(out, key):
    """Return a stored decoder on the CPU."""
    result = read_training(out, key)
    if result is None:
        raise ValueError(f"key={key!r} is missing or damaged: `autotransfer resume --out {out}` repeats it.")
    return result.estimator(device="cpu")


def probe(out, table, data=None):
    """Write the tables of ``probes/``, unless they are there for the same decoders.

    Notes
    -----
    The same trials of all subjects go through all decoders, so chance and the task of the probe are the same for each.
    Of these subjects one was never used and one only for validation. At most 40 subjects and 12 folds are probed.
    Leakage and codes are those of the first seed. Gains are those of all subjects.
    """
    index, folder = read_index(out), out / "probes"
    decoders = {
        name: table.loc[name, "setting"] for name in [BASELINE, *MEASURES, SELECTED] if name in table.index
    }
    index = index[index["setting"].isin(set(decoders.values()))]
    if index.empty:
        raise ValueError(
            f"out={str(out)!r} has no trainings/index.csv for its decoders: call `autotransfer resume` once, which "
            "writes it and trains nothing that is finished."
        )
    request = json.dumps({"decoders": decoders, "keys": sorted(index["key"])}, indent=1).encode()
    names = {name: f"probes/{name}.csv" for name in TABLES}
    if (
        all(is_intact(out, name) for name in (_REQUEST, *names.values()))
        and read_sealed(out, _REQUEST) == request
    ):
        return folder
    data = load_data(out) if data is None else data
    index = index[[read_training(out, key) is not None for key in index["key"]]]
    first_seed = index[index["seed"] == index["seed"].min()]
    # One thread: sums round the same on every machine, and small matrices gain nothing from more.
    with threadpool_limits(1):
        tables = {
            "leakage": _leakage(out, decoders, first_seed, data),
            "codes": _codes(out, decoders, first_seed, data),
            "gains": _gains(out, decoders, index, data),
            "cells": _cells(data),
        }
    for name, frame in tables.items():
        write_table(out, names[name], frame)
    write_sealed(out, _REQUEST, request)  # last, so that a crash before it repeats the probes
    return folder


def leakage_of(out, selected):
    """Return the mean subject accuracy of a linear probe on the whole code, or None without probes."""
    try:
        frame = read_table(out, "probes/leakage.csv")
    except TableError:
        return None
    if frame.empty:
        return None
    frame = frame[(frame["part"] == "all") & (frame["view"] == "marginal")]
    means = frame.groupby("setting")["accuracy"].mean()
    if not {BASELINE, selected} <= set(means.index):
        return None
    values = {"baseline": means[BASELINE], "selected": means[selected], "chance": frame["chance"].mean()}
    return pd.Series(values, dtype=float)


def _leakage(out, decoders, index, data):
    rows = _sample(data)
    X, y, subjects = data.take(rows), data.y[rows], data.subjects[rows]
    frames = []
    for setting in dict.fromkeys(decoders.values()):
        # The halves of complementary censoring cost as much again each, so only the selected decoder gets them.
        options = _PROBE_OPTIONS if setting == decoders.get(SELECTED) else {**_PROBE_OPTIONS, "halves": False}
        folds = index[index["setting"] == setting]
        for fold in folds.iloc[_spread(len(folds), _MAX_FOLDS)].itertuples():
            frame = load_decoder(out, fold.key).subject_leakage(X, y, subjects, **options)
            frame.insert(0, "setting", setting)
            frames.append(frame.assign(subject=fold.subject, seed=fold.seed))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _codes(out, decoders, index, data):
    """Return the first two principal components of baseline and selected decoder, of the first fold."""
    rows = _sample(data)
    X, subjects = data.take(rows), data.subjects[rows]
    frames = []
    for name in (BASELINE, SELECTED):
        folds = index[index["setting"] == decoders.get(name)]
        if folds.empty:
            continue
        z = load_decoder(out, folds["key"].iloc[0]).features(X, subjects=subjects)
        pca = PCA(min(2, *z.shape), svd_solver="full").fit(z)
        points = pca.transform(z)
        frame = pd.DataFrame(
            {"decoder": name, "left_out": folds["subject"].iloc[0]}, index=range(len(points))
        )
        frame["subject"] = subjects
        frame["label"] = np.asarray(data.classes)[data.y[rows]]
        frame["first"], frame["second"] = points[:, 0], points[:, -1]
        frames.append(frame.assign(explained=pca.explained_variance_ratio_.sum()))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _gains(out, decoders, index, data):
    """Return the gain of every subject, with the percentile interval of a bootstrap over its trials.

    Both decoders and all seeds are resampled together, class by class, so the difficulty of trials cancels.
    """
    table = []
    rng = np.random.default_rng(0)
    selected = decoders.get(SELECTED, BASELINE)
    keys = index.groupby(["setting", "subject"])["key"].apply(list).to_dict()
    for subject in data.all_subjects:
        rows = np.flatnonzero(data.subjects == subject)
        y = data.y[rows]
        accuracy = {}
        for setting in (BASELINE, selected):
            results = [read_training(out, key) for key in keys.get((setting, subject), ())]
            correct = [result.probabilities[subject].argmax(axis=1) == y for result in results]
            accuracy[setting] = np.mean(correct, axis=0) if correct else np.full(len(y), np.nan)
        difference = accuracy[selected] - accuracy[BASELINE]
        classes = [difference[y == label] for label in np.unique(y)]
        draws = [rng.choice(values, (_N_DRAWS, len(values))).mean(axis=1) for values in classes]
        low, high = np.percentile(np.mean(draws, axis=0), [2.5, 97.5])
        table.append((subject, np.mean([values.mean() for values in classes]), low, high, len(y)))
    return pd.DataFrame(table, columns=["subject", "gain", "low", "high", "trials"])


def _spread(n, n_max):
    """Return at most `n_max` of n positions, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, n_max)).astype(int))


def _cells(data):
    """Return the number of trials of every subject and class."""
    counts = pd.crosstab(data.subjects, np.asarray(data.classes)[data.y])
    counts = counts.reindex(index=data.all_subjects, columns=data.classes, fill_value=0).rename_axis(
        "subject"
    )
    return counts.rename_axis(columns="label").stack().rename("trials").reset_index()


def _sample(data):
    """Return the indices of about `_MAX_TRIALS` trials, as many of each subject, with a fixed seed."""
    subjects = [data.all_subjects[k] for k in _spread(len(data.all_subjects), _MAX_SUBJECTS)]
    count = max(8, _MAX_TRIALS // len(subjects))
    rng = np.random.default_rng(0)
    samples = [
        np.sort(rng.permutation(np.flatnonzero(data.subjects == subject))[:count]) for subject in subjects
    ]
    return np.concatenate(samples)
