"""One ``fit`` with a time limit: the score that it expects of a new subject, and that of subjects kept apart.

A third of the subjects of each recording is kept apart. AutoTransferClassifier is fitted on the others and decodes
every subject kept apart with their unlabelled trials. A row has the score that ``heldout_`` expects of a new subject,
its 90 % interval for one subject, and the balanced accuracy of the subjects kept apart.

    python -m studies.decoder --data DIR --time 600 --jobs 2 --device cpu
    python -m studies.decoder --data DIR/erp_uci_smni --time 180 --jobs 14 --device cuda --seed 1
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor import AutoTransferClassifier
from studies.recordings import find_recordings, read_recording

_COLUMNS = (
    "recording",
    "time limit",
    "used",
    "trainings",
    "expected",
    "90 % interval",
    "kept apart",
    "worst",
)


def keep_apart(subjects, seed):
    """Return a mask of the trials of a third of the subjects."""
    order = np.random.default_rng(seed).permutation(np.unique(subjects))
    return np.isin(subjects, order[: len(order) // 3])


def score_fit(data, apart, clf):
    """Fit without the subjects kept apart; return the seconds and the balanced accuracy of each of them."""
    began = time.monotonic()
    clf.fit(data.X[~apart], data.y[~apart], subjects=data.subjects[~apart])
    seconds, scores = time.monotonic() - began, []
    for subject in np.unique(data.subjects[apart]):
        X, y = data.X[data.subjects == subject], data.y[data.subjects == subject]
        scores.append(balanced_accuracy_score(y, clf.adapt(X).predict(X)))
    return seconds, np.array(scores)


def main(argv=None):
    """Print a row per recording."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--data", type=Path, nargs="+", required=True, help="folders of recordings, or folders that hold them"
    )
    add("--time", type=float, default=600, help="time_limit in seconds")
    add("--candidates", nargs="+", help="names of candidates; all default candidates if not given")
    add("--seed", type=int, default=0, help="of the fit and of the subjects kept apart")
    add("--jobs", type=int, default=1, help="trainings at a time")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    print(f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}")
    for folder in find_recordings(args.data):
        data, sfreq = read_recording(folder)
        options = {"device": args.device, "random_state": args.seed, "n_jobs": args.jobs, "sfreq": sfreq}
        clf = AutoTransferClassifier(
            "unlabeled", time_limit=args.time, candidates=args.candidates, verbose=0, **options
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # They are in heldout_.warnings.
            seconds, scores = score_fit(data, keep_apart(data.subjects, args.seed), clf)
        expected = clf.heldout_
        n_trainings = clf.leaderboard_.query("kind != 'combination'")["trainings"].sum()
        cells = [folder.name, f"{args.time:.0f} s", f"{seconds:.0f} s"]
        cells += [f"{n_trainings:.0f}", f"{expected.mean:.3f}"]
        cells += [f"{expected.low:.3f} to {expected.high:.3f}", f"{scores.mean():.3f}", f"{scores.min():.3f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
