"""Does a penalty's gradient depend on who is who? Right labels of people against shuffled ones, on real recordings.

A network of the family is trained a while without censoring. In batches as censoring has them, the gradient of each
penalty in the code is computed with the right labels and with labels shuffled within every class. The table has means
over batches of the right gradient's norm and of three cosines. The first is with the shuffled gradient: one means that
labels do not matter, zero that wrong labels give something else. The second is with the code itself, centred: a force
in that direction shrinks the code as a whole. The third is with where each person's other trials lie in the code, which
is what censoring is to take away.

    python benchmarks/mige_labels.py --data DIR                      # minutes on two cores
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import braindecode_censor as bc
from braindecode_censor.search.family import find_candidates
from braindecode_censor.trials.sampler import SubjectBatches
from studies.censoring.runs import read_recording

#: Recording -> its network in the study of censoring.
NETWORKS = {
    "erp_uci_smni": "subject-wide",
    "emg_myo": "euclidean-wide",
    "ssvep_exo": "euclidean-wide",
}
PENALTIES = {"mige": {}, "mige, calibrated": {"calibrate": True}, "mmd": {}}


def shuffle(people, y, rng):
    """Shuffle the labels of people within every class."""
    shuffled = people.copy()
    for k in np.unique(y):
        shuffled[y == k] = rng.permutation(shuffled[y == k])
    return shuffled


def cosine(a, b):
    """Return the cosine of the angle between two gradients."""
    norm = float(a.norm() * b.norm())
    return float((a * b).sum()) / norm if norm > 1e-12 else np.nan


def compare(z, y, people, n_batches=20, seed=0):
    """Compare gradients with right and with shuffled labels."""
    rng, rows = np.random.default_rng(seed), []
    for mode in ("marginal", "conditional"):
        batches = SubjectBatches(people, y if mode == "conditional" else None, random_state=seed)
        drawn = [batch for _ in range(n_batches) for batch in batches][:n_batches]
        for name, options in PENALTIES.items():
            sizes = {"n_subjects": int(people.max()) + 1, "n_classes": int(y.max()) + 1}
            penalty = bc.make_penalty(name.split(",")[0], mode, **sizes, **options)
            found = []
            for batch in drawn:
                labels = [people[batch], shuffle(people[batch], y[batch], rng)]
                right, wrong = (_gradient(penalty, z[batch], who, y[batch]) for who in labels)
                code = torch.as_tensor(z[batch] - z[batch].mean(0))
                places = torch.as_tensor(_places(z, y if mode == "conditional" else 0 * y, people, batch))
                found.append(
                    [float(right.norm()), *(cosine(right, other) for other in (wrong, code, places))]
                )
            rows.append((mode, name, *np.mean(found, axis=0)))
    return pd.DataFrame(rows, columns=["mode", "penalty", "norm", "shuffled", "code", "people"])


def _places(z, y, people, batch):
    """Where the other trials of each trial's person are, relative to everybody's, class by class."""
    rest = np.setdiff1d(np.arange(len(z)), batch)
    places = np.zeros_like(z[batch])
    for place, k, who in zip(places, y[batch], people[batch]):
        here = rest[y[rest] == k]
        mine = here[people[here] == who]
        place[:] = z[mine].mean(0) - z[here].mean(0) if len(mine) else 0
    return places


def _gradient(penalty, z, people, y):
    leaf = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    value = penalty(leaf, torch.as_tensor(people), torch.as_tensor(y))
    return torch.autograd.grad(value, leaf)[0]


def main(argv=None):
    """Train, compare and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the recordings' folders")
    parser.add_argument("--recording", action="append", choices=NETWORKS, help="all three if not given")
    parser.add_argument("--steps", type=int, default=300, help="steps of the training")
    args = parser.parse_args(argv)
    torch.manual_seed(0)
    for name in args.recording or NETWORKS:
        X, y, people, sfreq = read_recording(args.data, name)
        network = find_candidates([NETWORKS[name]])[0][0]
        clf = network.make(X.shape[1:], sfreq, 0, "cpu", args.steps).fit(X, y, people)
        z = clf.features(X, people)
        print(f"{name}, {NETWORKS[name]}, {args.steps} steps, {z.shape[1]} features")
        print(compare(z, y, people).to_string(index=False, float_format="{:.2g}".format), flush=True)


if __name__ == "__main__":
    main()
