r"""The decoder for the next person on real recordings: the family against the paper's protocol, tier by tier.

Needs folders of ``subject_XX.npz`` (see ``docs/datasets.md``) under ``--data``. Every candidate of the family, and
censoring on top of two of its networks, is trained without every pair of people, with several seeds. All of them are
trained whatever their scores are, so that every number of the ensemble is strictly nested: for the person tested only
models are used that have not seen this person, in the choice and in the weights, too. Training does not depend on what
is known of a person later, so the tiers share models:

* ``none``: nothing is known of the person;
* ``stream``: every trial is decoded with the unlabelled trials before it;
* ``unlabeled-20p``: the first fifth of the trials is known without labels, the others are decoded;
* ``unlabeled``: all trials are known without labels;
* ``labeled-5``: the labels of the first five trials of every class are known, or of all but one where there are fewer;
  the others are decoded.

    python paper_figures/run_transfer.py --data DIR --out results/transfer --device cuda
    python paper_figures/run_transfer.py --data DIR --out results/transfer --recording erp_uci_smni --seeds 1 \
        --candidates person euclidean waveform riemann
    python paper_figures/plot_transfer.py --results results/transfer

Interrupt and start again at will: finished trainings are kept, and so are held-out probabilities, from which the table
is made. Recordings and candidates can be run one after the other into the same folder; the table has all of them. The
last lines are the table of README.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from braindecode_censor.datasets import EpochsFolder, default_paradigm
from braindecode_censor.paper.data import sampling_rate
from braindecode_censor.search.family import find_candidates
from braindecode_censor.storage.files import clean, locked, write_atomically
from studies.transfer.scores import score_seeds
from studies.transfer.study import CANDIDATES, TransferStudy
from studies.transfer.tiers import TIERS
from studies.transfer.tiers_table import as_markdown, tiers_table

#: Recording -> options of the dataset, options of the paradigm.
RECORDINGS = {
    "erp_uci_smni": ({}, {}),
    "ssvep_exo": ({}, {}),
    "emg_myo": ({"where": {"subset": "PreTrainingDataset"}}, {}),
}


def read_recording(folder, options, cut):
    """Read a folder as MOABB hands it out."""
    dataset = EpochsFolder(folder, **options)
    paradigm = default_paradigm(dataset, **cut)
    X, y, metadata = paradigm.get_data(dataset)
    sfreq = sampling_rate(dataset, paradigm)
    return X.astype(np.float32), y, metadata["subject"].to_numpy(), sfreq


def run_recording(name, args):
    """Run all seeds of one recording, or what is left of them."""
    read = partial(read_recording, args.data / name, *RECORDINGS.get(name, ({}, {})))
    candidates, _ = find_candidates(args.candidates)
    say = partial(print, flush=True)
    machine = {"device": args.device, "n_jobs": args.jobs, "say": say}
    study = TransferStudy(read, args.out / name, candidates, args.partners, args.tiers, **machine)
    with locked(study.folder):
        clean(study.folder)
        found = study.run(list(range(args.seeds)))
    return score_seeds(found).assign(recording=name)


def scores_of_others(out, names):
    """Return the scores that are there of other recordings."""
    if not (out / "scores.csv").is_file():
        return pd.DataFrame()
    scores = pd.read_csv(out / "scores.csv")
    return scores[~scores["recording"].isin(names)]


def main(argv=None):
    """Run the recordings asked for and print the table, with what is there of others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder that holds the recordings' folders")
    add("--out", type=Path, default=Path("results/transfer"), help="folder for results")
    add("--recording", action="append", help="folder under --data; the three known ones if not given")
    add("--candidates", nargs="+", default=CANDIDATES, help="names of candidates")
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--partners", type=int, default=4, help="partners of each person")
    add("--tiers", nargs="+", default=list(TIERS), choices=TIERS, help="what may be known of the person")
    add("--jobs", type=int, default=1, help="trainings and tests at a time on a CPU")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    names = args.recording or list(RECORDINGS)
    scores = pd.concat([*(run_recording(name, args) for name in names), scores_of_others(args.out, names)])
    order = [*RECORDINGS, *dict.fromkeys(scores["recording"])]
    scores = scores.sort_values("recording", key=lambda column: column.map(order.index), kind="stable")
    write_atomically(args.out / "scores.csv", scores.to_csv(index=False).encode())
    table = as_markdown(tiers_table(scores))
    write_atomically(args.out / "table.md", table.encode())
    print(f"\n{table}")


if __name__ == "__main__":
    main()
