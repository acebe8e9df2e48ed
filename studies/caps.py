"""Caps that differ: accuracy with missing channels, and of a fit in which half of the subjects lack some.

Ten subjects of a recording with channel names are kept apart. A decoder is fitted on the others, with all channels, and
with half of the subjects without some, so that the common ones are used. It decodes the subjects kept apart, adapted to
their unlabelled trials: with all channels, and with some missing, which are estimated. A row is the mean over seeds.

    python -m studies.caps --data DIR/erp_uci_smni --seeds 3
"""

import argparse
import warnings
from pathlib import Path

import mne
import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor import AutoTransferClassifier
from braindecode_censor.datasets.epochs_folder import find_subjects
from braindecode_censor.datasets.interchange import read_subject
from braindecode_censor.trials.dataset import SIGNALS

_N_APART = 10
_MISSING = (0, 5, 15, 30)  # of 61


def read_caps(folder):
    """Return one Epochs per subject, with its number in the metadata."""
    caps = []
    for number, path in find_subjects(folder).items():
        record = read_subject(path)
        info = mne.create_info(list(record.ch_names), record.sfreq, list(record.ch_types))
        events = np.column_stack([np.arange(len(record.y)), 0 * record.y, record.y])
        metadata = pd.DataFrame({"subject": np.full(len(record.y), number)})
        epochs = mne.EpochsArray(record.X, info, events, metadata=metadata, verbose="error")
        caps.append(epochs.pick([t for t in dict.fromkeys(record.ch_types) if t in SIGNALS]))
    return caps


def without(epochs, names):
    """Return trials without some channels."""
    return epochs.copy().drop_channels(list(names)) if len(names) else epochs


def score(clf, apart, missing):
    """Return the mean accuracy of the subjects kept apart, with some channels missing."""
    scores = []
    for epochs in apart:
        trials = without(epochs, missing)
        scores.append(balanced_accuracy_score(epochs.events[:, 2], clf.adapt(trials).predict(trials)))
    return np.mean(scores)


def run_seed(caps, seed, candidates, max_trainings):
    """Return condition -> accuracy of one seed."""
    rng = np.random.default_rng(seed)
    order, names = rng.permutation(len(caps)), rng.permutation(caps[0].ch_names)
    apart, others = [caps[k] for k in order[:_N_APART]], [caps[k] for k in order[_N_APART:]]
    options = {"candidates": candidates, "max_trainings": max_trainings, "random_state": seed, "verbose": 0}
    options["device"] = "cpu"
    clf = AutoTransferClassifier(**options).fit(others)
    rows = {f"decoder of all channels, {n} missing": score(clf, apart, names[:n]) for n in _MISSING}
    half = [without(epochs, names[: _MISSING[-1] + 1] if k % 2 else ()) for k, epochs in enumerate(others)]
    common = AutoTransferClassifier(**options).fit(half)
    return rows | {f"decoder of {common.input_.n_chans} common channels": score(common, apart, ())}


def main(argv=None):
    """Print a row per condition."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of a recording with channel names")
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--candidates", nargs="+", default=["subject", "euclidean", "waveform", "xdawn"], help="names")
    add("--max-trainings", type=int, help="limit of trainings; all of them if not given")
    args = parser.parse_args(argv)
    caps = read_caps(args.data)
    warnings.simplefilter("ignore")
    rows = [run_seed(caps, seed, args.candidates, args.max_trainings) for seed in range(args.seeds)]
    print("| channels | balanced accuracy | seeds |\n|---|---|---|")
    for name, values in pd.DataFrame(rows).items():
        print(f"| {name} | {values.mean():.3f} | {', '.join(f'{v:.3f}' for v in values)} |")


if __name__ == "__main__":
    main()
