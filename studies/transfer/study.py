"""All candidates on one recording: trained without every fold of several seeds, then tested with all target data.

Nothing is selected before the end, so every number of an ensemble is nested: models, choice and weights of a test
subject have not used its data.
"""

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from braindecode_censor.run.runner import run
from braindecode_censor.search.family import BASELINE, default_names
from braindecode_censor.search.folds import FoldedTrials, make_folds
from braindecode_censor.search.heldout import HeldOut
from braindecode_censor.storage.store import Store
from studies.derived import derive
from studies.transfer.target_data import TARGET_DATA, decode_with

__all__ = ["CANDIDATES", "StudyResult", "TransferStudy"]

#: The default candidates, and censoring on top of two of their networks.
CANDIDATES = [
    *default_names(),
    *(f"{base}+{method}-conditional" for base in ("subject", "euclidean") for method in ("mmd", "adv")),
]


@dataclass
class StudyResult:
    """Held-out probabilities of all candidates, seed by seed."""

    heldout: dict  # seed -> target data -> HeldOut
    kinds: dict  # candidate -> "network" or "classical"
    cost: pd.DataFrame  # seed, trainings and their seconds
    errors: dict = field(default_factory=dict)  # candidate -> why it was dropped


class TransferStudy:
    """Trains all candidates on all folds of several seeds, and decodes the held-out subjects with all target data."""

    def __init__(
        self,
        data,
        sfreq,
        folder,
        candidates,
        *,
        partners=4,
        targets=TARGET_DATA,
        device="cpu",
        n_jobs=1,
        log=print,
    ):
        self.data, self.sfreq, self.candidates, self.targets = data, sfreq, candidates, tuple(targets)
        self.partners, self.device, self.n_jobs, self.log = partners, device, n_jobs, log
        self.store = Store(Path(folder) / "trainings")
        self.n_subjects = int(data.subjects.max()) + 1

    def run(self, seeds, names=None, max_subjects=None, first_folds=False):
        """Return the :class:`StudyResult` of seeds; the store has what is finished.

        Only some candidates, at most so many subjects to train on, only the folds that test every subject once.
        """
        candidates = [c for c in self.candidates if names is None or c.name in names]
        folded = {seed: self._fold(seed, max_subjects) for seed in seeds}
        origins = {  # training -> where it belongs
            trials.training(candidate, fold): (seed, fold)
            for seed, trials in folded.items()
            for candidate in candidates
            for fold in range(trials.n_first_folds if first_folds else len(trials.folds))
        }
        results = self._train(list(origins))
        errors = {r.training.name: r.error for r in results if r.error is not None}
        for name, error in errors.items():
            self.log(f"  {name} failed: {error}")
        results = [r for r in results if r.training.name not in errors]
        labels, n_folds = next(iter(folded.values())).labels, {s: len(t.folds) for s, t in folded.items()}
        heldout = {
            seed: {target: HeldOut(labels, trials.folds) for target in self.targets}
            for seed, trials in folded.items()
        }
        decode = partial(decode_all, self.data, self.targets)
        decoded = derive(results, self.data, self.store, ",".join(self.targets), decode, self.n_jobs)
        for result, arrays in decoded:
            seed, fold = origins[result.training]
            for target in self.targets:
                probabilities = {s: arrays[f"{target} {s}"] for s in result.training.test}
                heldout[seed][target].add(result.training.name, fold, probabilities)
        rows = [(origins[r.training][0], 1, r.seconds) for r in results]
        cost = (
            pd.DataFrame(rows, columns=["seed", "trainings", "seconds"]).groupby("seed", as_index=False).sum()
        )
        self.log(f"  {len(results)} trainings of {len(n_folds)} seeds are tested")
        kinds = {c.name: c.kind for c in candidates if c.name not in errors}
        return StudyResult(heldout, kinds, cost, errors)

    def _fold(self, seed, max_subjects):
        folds = make_folds(self.n_subjects, self.partners, seed)
        return FoldedTrials(self.data, folds, "none", self.sfreq, self.device, seed, max_subjects)

    def _train(self, trainings):
        results, began = [], time.monotonic()
        for result in run(trainings, self.data, self.store, self.n_jobs):
            results.append(result)
            if len(results) % 100 == 0 or len(results) == len(trainings):
                seconds = time.monotonic() - began
                self.log(f"  {len(results)} of {len(trainings)} trainings after {seconds:.0f} s")
        return results

    def learning_curve(self, result, seed=0):
        """Return the scores of the best candidate and the paper's protocol when fewer subjects are trained on."""
        heldout = result.heldout[seed]
        best = heldout["unlabeled" if "unlabeled" in heldout else self.targets[0]]
        names = {BASELINE, min(result.kinds, key=best.loss)} & set(result.kinds)
        most, frames = self.n_subjects - 2, []
        for size in [*(2**k for k in range(1, most.bit_length()) if 2**k < most), most]:
            self.log(f"  learning curve: {size} subjects to train on")
            reduced = self.run([seed], names, None if size == most else size, first_folds=True)
            frames += [
                pd.DataFrame(
                    {"n_train": size, "target": target, "decoder": name, "subject": subject, "score": score}
                )
                for target, tested in reduced.heldout[seed].items()
                for name in reduced.kinds
                for subject, score in [(np.arange(self.n_subjects), tested.scores(name))]
            ]
        return pd.concat(frames, ignore_index=True)


def decode_all(data, targets, training, estimator):
    """Return the probabilities of the held-out subjects with all target data, as "target subject" -> array."""
    arrays = {}
    for subject in training.test:
        rows = data.rows([subject])
        X, y = data.take(rows), data.y[rows]
        for target in targets:
            probabilities = decode_with(target, estimator, X, y, data.n_classes)
            arrays[f"{target} {subject}"] = probabilities.astype(np.float32)
    return arrays
