r"""AutoTransferClassifier inside MOABB's own CrossSubjectEvaluation, beside other people's pipelines.

MOABB is the judge: it leaves every person out, fits on the others, and hands over what its mode allows of the person.

    python benchmarks/moabb_decoder.py --out results/moabb                               # simulated people
    python benchmarks/moabb_decoder.py --out results/moabb --data DIR/emg_myo --where subset=PreTrainingDataset
"""

import argparse
import warnings
from pathlib import Path

import moabb
import torch
from mne.decoding import CSP
from moabb.evaluations import CrossSubjectEvaluation, CrossSubjectMode
from pyriemann.estimation import Covariances
from pyriemann.tangentspace import TangentSpace
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from braindecode_censor import AutoTransferClassifier
from braindecode_censor.datasets import EpochsFolder, SimulatedSubjects, default_paradigm

#: Mode of MOABB -> what the classifier is told to expect.
MODES = {"TRAIN": "none", "TRAIN_AND_TARGET_UNLABELED_FULL": "unlabeled"}


def others():
    """Return pipelines as MOABB's users run them."""
    log = LogisticRegression(max_iter=1000)
    return {
        "CSP + LDA": make_pipeline(CSP(n_components=8, reg="ledoit_wolf"), LinearDiscriminantAnalysis()),
        "TS + LR": make_pipeline(Covariances("oas"), TangentSpace(), log),
    }


def main(argv=None):
    """Run both modes and print the mean over people."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder of subject_XX.npz; simulated people if not given")
    add("--where", help="KEY=VALUE that files of the folder must have")
    add("--people", type=int, help="the first so many; all if not given")
    add("--time", type=float, default=60, help="time_limit of each fit, in seconds")
    add("--jobs", type=int, default=2, help="trainings at a time")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    add("--out", type=Path, required=True, help="folder for MOABB's results and the table")
    args = parser.parse_args(argv)
    moabb.set_log_level("error")
    if args.data is None:
        dataset = SimulatedSubjects(6, 40, kind="mixed")
    else:
        where = dict([args.where.split("=")]) if args.where else None
        dataset = EpochsFolder(args.data, where=where)
    dataset.subject_list = dataset.subject_list[: args.people]
    paradigm = default_paradigm(dataset)
    lines = ["| MOABB's mode | pipeline | mean | worst |", "|---|---|---|---|"]
    for mode, target in MODES.items():
        auto = AutoTransferClassifier(target, args.time, args.device, n_jobs=args.jobs, verbose=0)
        pipelines = {"AutoTransferClassifier": make_pipeline(auto)}
        evaluation = CrossSubjectEvaluation(
            paradigm=paradigm,
            datasets=[dataset],
            hdf5_path=str(args.out / mode),
            cs_mode=CrossSubjectMode[mode],
            overwrite=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = evaluation.process(pipelines | (others() if mode == "TRAIN" else {}))
        for name, found in scores.groupby("pipeline")["score"]:
            lines.append(f"| {mode} | {name} | {found.mean():.3f} | {found.min():.3f} |")
            print(lines[-1], flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "moabb.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
