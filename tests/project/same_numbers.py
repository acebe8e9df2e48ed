"""Write down the probabilities of one fit of every kind, or compare them with those written before.

Usage: ``python tests/project/same_numbers.py --write numbers.npz``, then, after a change,
``python tests/project/same_numbers.py --compare numbers.npz``. Run both on the same machine.
"""

import argparse
import sys
import tempfile
import warnings

import numpy as np
import torch

import braindecode_censor as bc
from braindecode_censor.datasets import SimulatedSubjects

TOLERANCE = 1e-6


def fit_callback(X, y, subjects):
    """Return the probabilities of Braindecode's classifier with the callback."""
    from braindecode import EEGClassifier

    torch.manual_seed(0)
    censor = bc.Censor("mmd", mode="conditional", weight=0.3, subjects=subjects)
    clf = EEGClassifier("EEGNet", callbacks=[censor], max_epochs=3, batch_size=32, train_split=None)
    return clf.fit(X, y).predict_proba(X)


def fit_estimator(X, y, subjects, **options):
    """Return the probabilities of the estimator, also adapted to the last subject."""
    train = subjects < subjects.max()
    clf = bc.CensoredEEGClassifier(**{"max_steps": 12, "batch_size": 40, **options})
    clf.fit(X[train], y[train], subjects=subjects[train])
    return np.concatenate([clf.predict_proba(X[~train]), clf.adapt(X[~train]).predict_proba(X[~train])])


def fit_search(X, y, subjects, **options):
    """Return held-out scores, weights and answers of the search."""
    train = subjects < subjects.max()
    options = {"target": "unlabeled", "time_limit": None, "verbose": 0, "device": "cpu", **options}
    clf = bc.AutoTransferClassifier(**options).fit(X[train], y[train], subjects=subjects[train])
    adapted = clf.adapt(X[~train]).predict_proba(X[~train]).ravel()
    board = clf.leaderboard_.sort_values("candidate")["mean"].to_numpy(float)
    return np.concatenate([list(clf.heldout_.scores.values()), board, adapted])


def run_experiment(folder):
    """Return the table of a small experiment of the paper."""
    options = {"random_state": 0, "n_top": 1, "n_jobs": 1, "training": {"max_epochs": 3}}
    grid = [{"method": ["mmd", "adv"], "mode": ["marginal", "conditional"], "weight": [0.1]}]
    data = {"n_subjects": 5, "n_trials": 24}
    result = bc.AutoTransfer("simulated", folder, grid, dataset_options=data, **options).run(report=False)
    print("selected:", result.selected)
    return result.scores.sort_values(["setting", "subject"])[["score", "score_valid"]].to_numpy(float)


def compute():
    X, y, subjects = SimulatedSubjects(6, 24, kind="mixed", n_classes=2, n_chans=6, sfreq=96.0).arrays()
    small = [
        {"name": "net", "network": "EEGNet", "normalize": "euclidean", "max_steps": 8, "batch_size": 24},
        {"name": "riemann", "classical": "covariance"},
        {"name": "waveform", "classical": "waveform", "windows": 16},
    ]
    paper = {**bc.PAPER, "max_epochs": 3, "max_steps": None, "penalty": None}
    numbers = {
        "callback": fit_callback(X, y, subjects),
        "mmd": fit_estimator(X, y, subjects),
        "adv": fit_estimator(X, y, subjects, penalty="adv", censoring="complementary", weight=0.03),
        "mige": fit_estimator(X, y, subjects, penalty="mige", censoring="marginal", weight=0.01),
        "paper": fit_estimator(X, y, subjects, **paper),
        "classical": fit_search(X, y, subjects, candidates=small[1:2]),
        "search": fit_search(X, y, subjects, candidates=small),
        "max_trainings": fit_search(X, y, subjects, candidates=small, max_trainings=20),
    }
    with tempfile.TemporaryDirectory() as folder:
        numbers["experiment"] = run_experiment(folder)
    return numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write")
    parser.add_argument("--compare")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    numbers = compute()
    if args.write:
        np.savez(args.write, **numbers)
        return 0
    before, failed = np.load(args.compare), 0
    for name, now in numbers.items():
        same = now.shape == before[name].shape
        difference = np.nanmax(np.abs(now - before[name])) if same else np.inf
        failed += difference > TOLERANCE
        print(f"{name:14} {difference:.1e}" + ("" if difference <= TOLERANCE else "  DIFFERS"))
    return failed


if __name__ == "__main__":
    sys.exit(main())
