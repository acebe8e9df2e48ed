"""Freedom of gain: what decoders of a subject answer when all trials of the subject are multiplied by one number.

A third of the subjects of each recording is kept apart, and every candidate is trained once on the others. It decodes
each subject kept apart adapted to all trials, adapted to the first ten, and as a stream. A row has the balanced
accuracy at gain 1, the lowest one at the other gains, and the largest change of a probability: of ``adapt(g * X)`` on
``g * X``, and of the stream after twenty trials.

    python -m studies.gain --data DIR --seeds 3 --models FOLDER
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor.run.decode import adapt_to, quiet
from braindecode_censor.run.model import pack_model, unpack_model
from braindecode_censor.search.family import find_candidates
from studies.decoder import keep_apart
from studies.recordings import find_recordings, read_recording

_CANDIDATES = ("subject", "euclidean", "power", "hjorth", "riemann", "waveform", "xdawn")
_GAINS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
_TARGETS = ("all trials", "ten trials", "stream")
_SETTLED = 20  # trials after which a stream knows the gain


def train(candidate, data, apart, sfreq, seed, folder):
    """Return a candidate fitted without the subjects kept apart; the folder has it, or gets it."""
    file = folder / f"{candidate.name}-{seed}.bin"
    if file.exists():
        return unpack_model(file.read_bytes())
    clf = candidate.make(data.X.shape[1:], sfreq, seed)
    clf.fit(data.X[~apart], data.y[~apart], subjects=data.subjects[~apart])
    folder.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pack_model(clf))
    return clf


def decode(clf, X, target):
    """Return the probabilities of one subject's trials."""
    if target == "stream":
        return clf.stream().predict_proba(X)
    return adapt_to(clf, X if target == "all trials" else X[:10]).predict_proba(X)


def score_gains(clf, X, y, target):
    """Return the accuracy at every gain, and the largest change of a probability at every gain."""
    probabilities = [decode(clf, np.float32(gain) * X, target) for gain in _GAINS]
    same, first = probabilities[_GAINS.index(1.0)], _SETTLED if target == "stream" else 0
    scores = [balanced_accuracy_score(y, clf.classes_[p.argmax(axis=1)]) for p in probabilities]
    return scores, [np.abs(p - same)[first:].max() for p in probabilities]


def main(argv=None):
    """Print a row per recording, candidate and target data."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, help="folders of recordings")
    add("--candidates", nargs="+", default=_CANDIDATES, help="names of candidates")
    add("--seeds", type=int, default=3, help="number of seeds")
    add(
        "--models",
        type=Path,
        required=True,
        help="folder of trained models, which are trained if they are missing",
    )
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    print("| recording | candidate | target data | gain 1 | worst gain | change of a probability |")
    print("|---|---|---|---|---|---|", flush=True)
    candidates, _ = find_candidates(args.candidates)
    for recording in find_recordings(args.data):
        data, sfreq = read_recording(recording)
        for candidate in candidates:
            scores, changes = {t: [] for t in _TARGETS}, {t: [] for t in _TARGETS}
            for seed in range(args.seeds):
                apart = keep_apart(data.subjects, seed)
                with quiet():
                    clf = train(candidate, data, apart, sfreq, seed, args.models / recording.name)
                    for subject in np.unique(data.subjects[apart]):
                        rows = data.rows([subject])
                        for target in _TARGETS:
                            score, change = score_gains(clf, data.X[rows], data.y[rows], target)
                            scores[target].append(score)
                            changes[target].append(change)
            for target in _TARGETS:
                mean = np.mean(scores[target], axis=0)
                cells = [recording.name, candidate.name, target, f"{mean[_GAINS.index(1.0)]:.4f}"]
                cells += [f"{mean.min():.4f}", f"{np.max(changes[target]):.3f}"]
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
