"""The search as a queue against the search by halving that came before it (commit 62cba43).

One fit, with a third of the subjects kept apart, appends a line to a file; run it with either package on PYTHONPATH:

    python studies/compare_searches.py --fit ../shared/data/ssvep_exo --seed 0 --seconds 240 --label queue --out lines.jsonl

The table compares the labels, paired over the subjects kept apart:

    python studies/compare_searches.py --table lines.jsonl
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

#: Recording -> its sampling rate and the files that are used, as its README says.
SFREQ = {"erp_uci_smni": 128, "ssvep_exo": 128, "emg_myo": 200}
N_FILES = {"emg_myo": 19}


def read(folder):
    """Return signals, labels and subjects of a folder of recordings."""
    X, y, subjects = [], [], []
    for number, path in enumerate(sorted(folder.glob("subject_*.npz"))[: N_FILES.get(folder.name)]):
        record = np.load(path)
        X.append(record["X"].astype(np.float32) * record["scale"].astype(np.float32)[None, :, None] * 1e6)
        y.append(record["y"])
        subjects.append(np.full(len(record["y"]), number))
    return np.concatenate(X), np.concatenate(y), np.concatenate(subjects)


def balanced_accuracy(y, predicted):
    """Return the mean recall over classes."""
    return float(np.mean([(predicted[y == k] == k).mean() for k in np.unique(y)]))


def fit(folder, seed, seconds, device, n_jobs, label):
    """Fit on two thirds of the subjects and return the scores of the others, with unlabelled target data."""
    import braindecode_censor as bc

    X, y, subjects = read(folder)
    names = np.random.default_rng(seed).permutation(np.unique(subjects))
    apart = names[: len(names) // 3]
    train = ~np.isin(subjects, apart)
    options = {"sfreq": SFREQ[folder.name], "random_state": seed, "verbose": 0}
    clf = bc.AutoTransferClassifier("unlabeled", seconds, device, n_jobs=n_jobs, **options)
    began = time.perf_counter()
    clf.fit(X[train], y[train], subjects=subjects[train])
    used = time.perf_counter() - began
    scores = {
        str(s): balanced_accuracy(y[subjects == s], clf.adapt(X[subjects == s]).predict(X[subjects == s]))
        for s in apart
    }
    board = clf.leaderboard_
    facts = {"used": used / seconds, "trainings": float(board["trainings"].max())}
    facts |= {"candidates": int((board["weight"] > 0).sum()), "expected": clf.heldout_.mean}
    where = {"device": device, "seconds": seconds}
    return {"label": label, "recording": folder.name, "seed": seed, **where, **facts, "scores": scores}


def table(lines):
    """Return one row per recording and device: mean of every label, and the gain paired over subjects."""
    rows = []
    for line in lines:
        for subject, score in line["scores"].items():
            rows.append({**{k: v for k, v in line.items() if k != "scores"}, "subject": subject, "score": score})
    frame = pd.DataFrame(rows)
    out = []
    for (device, recording), group in frame.groupby(["device", "recording"]):
        wide = group.pivot_table(index=["seed", "subject"], columns="label", values="score").dropna()
        row = {"device": device, "recording": recording, "subjects": len(wide), **wide.mean().round(3).to_dict()}
        for label, part in group.groupby("label"):
            row[f"used ({label})"] = round(part["used"].mean(), 2)
            row[f"trainings ({label})"] = round(part["trainings"].mean())
        labels = sorted(group["label"].unique())
        if len(labels) == 2:
            gain = wide[labels[1]] - wide[labels[0]]
            row["gain"] = f"{gain.mean():+.3f} ± {gain.std(ddof=1) / np.sqrt(len(gain)):.3f}"
            row["up, down"] = f"{(gain > 0).sum()}, {(gain < 0).sum()}"
        out.append(row)
    return pd.DataFrame(out)


def main():
    """Fit or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--fit", type=Path)
    add("--seed", type=int, default=0)
    add("--seconds", type=float, default=600)
    add("--device", default="cpu")
    add("--jobs", type=int, default=2)
    add("--label", default="queue")
    add("--out", type=Path)
    add("--table", type=Path)
    args = parser.parse_args()
    if args.table:
        lines = [json.loads(line) for line in args.table.read_text().splitlines()]
        print(table(lines).to_string(index=False))
        return
    warnings.simplefilter("ignore")
    line = fit(args.fit, args.seed, args.seconds, args.device, args.jobs, args.label)
    print({k: v for k, v in line.items() if k != "scores"}, np.mean(list(line["scores"].values())), flush=True)
    if args.out:
        with open(args.out, "a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
