"""All arms of the censoring study on top of one base candidate: trained without every fold, tested and probed."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score

from braindecode_censor.paper.grid import METHODS
from braindecode_censor.run.runner import run
from braindecode_censor.run.training import Training, TrialData
from braindecode_censor.search.family import BASELINE, censored_candidates, find_candidates
from braindecode_censor.storage.store import Store
from braindecode_censor.training.leakage import subject_leakage
from braindecode_censor.trials.normalizations import SUBJECTWISE, normalize_subjects
from braindecode_censor.trials.normalize import SubjectNormalizer
from studies.derived import derive

__all__ = ["MODES", "CensoringStudy", "StudyArm", "make_arms", "make_folds", "shuffle_subjects"]

#: Censoring mode -> part of the code and view of the subject leakage that it reduces.
MODES = {"marginal": ("all", "marginal"), "conditional": ("all", "within class")}
MODES |= {"complementary": ("first half", "marginal")}
_SEED_STEP = 1000  # so that no two folds of different seeds train with the same seed
_SIZE_MATCHED = 10  # The gradient of size-matched MIGE is about ten times smaller.


@dataclass(frozen=True)
class StudyArm:
    """A penalty, or a control, on top of the base candidate."""

    method: str
    mode: str
    weight: float = 0.0
    control: str = "censored"  # "batches" and "shuffle" have no penalty, "reveal" and "labels" a wrong one


def make_arms(base, levels, control_modes, methods=METHODS, calibrate=False):
    """Return the arms: every method and mode at multiples of its default penalty weight, and the controls."""
    weights = {(c.spec["penalty"], c.spec["censoring"]): c.spec["weight"] for c in censored_candidates(base)}
    if calibrate:
        weights |= {key: _SIZE_MATCHED * weight for key, weight in weights.items() if key[0] == "mige"}
    arms = [
        StudyArm("none", "marginal", control="batches"),
        StudyArm("none", "conditional", control="batches"),
    ]
    arms.append(StudyArm("none", "marginal", control="shuffle"))
    for method in methods:
        for mode in MODES:
            weight = weights[method, mode]
            arms += [StudyArm(method, mode, float(f"{level * weight:.3g}")) for level in levels]
            if mode in control_modes:
                arms += [StudyArm(method, mode, -weight, "reveal"), StudyArm(method, mode, weight, "labels")]
    return arms


def make_folds(n_subjects, n_folds, seed):
    """Return the held-out subjects of every fold."""
    return np.array_split(np.random.default_rng(seed).permutation(n_subjects), min(n_folds, n_subjects))


def shuffle_subjects(data, train, valid_subject, seed):
    """Return labels shuffled among training subjects within every class; the validation subject keeps its label."""
    subjects, rng = data.subjects.copy(), np.random.default_rng(seed)
    for k in np.unique(data.y):
        rows = np.flatnonzero((data.y == k) & np.isin(subjects, train) & (subjects != valid_subject))
        subjects[rows] = rng.permutation(subjects[rows])
    return subjects


class CensoringStudy:
    """One base candidate on one recording, with all arms on top."""

    def __init__(self, data, sfreq, folder, base, *, folds=4, max_steps=None, device="cpu", n_jobs=1, **arms):
        self.data, self.sfreq, self.n_folds, self.device, self.n_jobs = data, sfreq, folds, device, n_jobs
        self.max_steps, self.calibrate = max_steps, arms.get("calibrate", False)
        (self.base,), _ = find_candidates([base])
        self.arms = make_arms(self.base, **arms)
        self.store = Store(Path(folder) / "trainings")
        self.n_subjects = int(data.subjects.max()) + 1
        self.strategy = self._make(0).normalize

    def run(self, seed):
        """Return the tables of a seed: scores, subject leakage and cost; the store has what is finished."""
        tables = {"scores": [], "leakage": [], "cost": []}
        folds = make_folds(self.n_subjects, self.n_folds, seed)
        for fold, test in enumerate(folds):
            train = np.setdiff1d(np.arange(self.n_subjects), test)
            valid_subject = int(folds[(fold + 1) % len(folds)][0])
            for is_shuffled in (False, True):
                arms = [arm for arm in self.arms if (arm.control == "labels") == is_shuffled]
                if not arms:
                    continue
                data = (
                    self._shuffled(train, valid_subject, seed * _SEED_STEP + fold)
                    if is_shuffled
                    else self.data
                )
                trainings = {}
                for arm in arms:
                    estimator = self._estimator(arm, seed * _SEED_STEP + fold, valid_subject)
                    name = f"{self.base.name}+{arm}"
                    trainings[Training(name, estimator, tuple(train.tolist()), tuple(test.tolist()))] = arm
                self._collect(tables, trainings, data, is_shuffled, {"seed": seed})
        leakage = pd.DataFrame(tables["leakage"])
        keys = [name for name in leakage.columns if name not in ("accuracy", "chance")]
        leakage = leakage.groupby(keys, sort=False, as_index=False).mean()
        seconds = sum(tables["cost"])
        cost = {"seed": seed, "trainings": len(tables["cost"]), "seconds": seconds, "device": self.device}
        cost["max_steps"] = self.max_steps or self.base.steps
        return {"scores": pd.DataFrame(tables["scores"]), "leakage": leakage, "cost": pd.DataFrame([cost])}

    def _collect(self, tables, trainings, data, is_shuffled, row):
        results = list(run(list(trainings), data, self.store, self.n_jobs))
        tables["cost"] += [result.seconds for result in results]
        fitted = [result for result in results if result.error is None]
        evaluate = partial(
            evaluate_training, self.data, self.strategy if is_shuffled else None, self.base.name
        )
        for result, arrays in derive(fitted, data, self.store, "scores,leakage", evaluate, self.n_jobs):
            arm = row | vars(trainings[result.training])
            tables["scores"] += [
                {**arm, "subject": subject, "score": score}
                for subject, score in zip(result.training.test, arrays["scores"].tolist())
            ]
            tables["leakage"] += [
                {**arm, "probe": mode, "chance": chance, "accuracy": accuracy}
                for mode, (chance, accuracy) in zip(MODES, arrays["leakage"].tolist())
            ]

    def _make(self, seed):
        return self.base.make(self.data.X.shape[1:], self.sfreq, seed, self.device, self.max_steps)

    def _estimator(self, arm, seed, valid_subject):
        params = {"penalty": None if arm.method == "none" else arm.method, "censoring": arm.mode}
        params |= {"weight": arm.weight, "sampling": "shuffle" if arm.control == "shuffle" else "balanced"}
        if arm.method == "mige":
            params["penalty__calibrate"] = self.calibrate
        if arm.control == "labels" and self.strategy in SUBJECTWISE:
            params["normalize"] = "none"  # The signals are normalised by the true subjects beforehand.
        estimator = self._make(seed).set_params(**params)
        return (
            estimator
            if estimator.valid_subject is None
            else estimator.set_params(valid_subject=valid_subject)
        )

    def _shuffled(self, train, valid_subject, seed):
        X = self.data.X
        if self.strategy in SUBJECTWISE:
            X = np.asarray(normalize_subjects(X, self.data.subjects, self.strategy), np.float32)
        return TrialData(X, self.data.y, shuffle_subjects(self.data, train, valid_subject, seed))


def evaluate_training(data, shuffled_strategy, base, training, estimator):
    """Return the scores of the held-out subjects, and chance and accuracy of probes on the training subjects.

    Held-out subjects are decoded with their unlabelled trials, by the paper's protocol without target data. With
    shuffled labels the estimator does not normalise, so that it is done here by the true subjects.
    """
    normalizer = None
    rows = data.rows(training.train)
    X, y, subjects = data.take(rows), data.y[rows], data.subjects[rows]
    if shuffled_strategy in SUBJECTWISE:
        normalizer = SubjectNormalizer(shuffled_strategy).fit(X, subjects=subjects)
        X = normalize_subjects(X, subjects, shuffled_strategy)
    report = subject_leakage(
        estimator.features(X, None if normalizer else subjects), y, subjects, halves=True, probes=("logistic",),
        n_splits=3, n_boot=1,
    ).set_index(["part", "view"])  # fmt: skip
    scores = []
    for subject in training.test:
        rows = data.rows([subject])
        X = data.take(rows)
        X = normalizer.adapt(X).transform(X) if normalizer else X
        adapted = estimator if base == BASELINE else estimator.adapt(X)
        scores.append(balanced_accuracy_score(data.y[rows], adapted.predict(X)))
    leakage = [report.loc[view, ["chance", "accuracy"]].to_numpy(float) for view in MODES.values()]
    return {"scores": np.array(scores), "leakage": np.stack(leakage)}
