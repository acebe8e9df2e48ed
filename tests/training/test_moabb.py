"""The estimator runs in MOABB's cross-subject evaluation, with its results file and its target data."""

import warnings
from typing import ClassVar

import moabb
import numpy as np
import pytest
from moabb.datasets.fake import FakeDataset
from moabb.evaluations import CrossSubjectEvaluation, CrossSubjectMode
from moabb.paradigms import P300
from sklearn.pipeline import make_pipeline

from braindecode_censor import PAPER, CensoredEEGClassifier

moabb.set_log_level("error")
SMALL = {**PAPER, "module__F1": 4, "module__D": 1, "max_epochs": 2, "batch_size": 32}


def _dataset(kind=FakeDataset, subjects=(1, 2, 3, 4), n_sessions=1, **options):
    return kind(
        event_list=("Target", "NonTarget"),
        n_sessions=n_sessions,
        n_runs=1,
        n_subjects=max(subjects),
        subjects=list(subjects),
        paradigm="p300",
        n_events=24,
        duration=40,
        seed=7,
        **options,
    )


def _valid(estimator, X, y):
    return estimator[-1].valid_score_


def _valid_subject(estimator, X, y):
    return float(estimator[-1].valid_subject_)


def _fingerprint(estimator, X, y):
    """One number that tells two sets of weights apart."""
    state = estimator[-1].module_.state_dict().values()
    flat = np.concatenate([tensor.double().numpy().ravel() for tensor in state])
    return float(flat @ np.random.default_rng(0).normal(size=len(flat)))


SCORER = {
    "balanced_accuracy": "balanced_accuracy",
    "valid": _valid,
    "valid_subject": _valid_subject,
    "weights": _fingerprint,
}


def _evaluate(dataset, pipelines, folder, evaluation=CrossSubjectEvaluation, scorer=SCORER, **options):
    paradigm = P300(resample=64, tmax=1.0, scorer=scorer)
    options = {"hdf5_path": str(folder), "overwrite": False, "suffix": "front", **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluation(paradigm=paradigm, datasets=[dataset], **options).process(pipelines)


def _pipeline(**options):
    return make_pipeline(CensoredEEGClassifier(**{**SMALL, **options}))


def test_validation_scores_in_the_results(tmp_path):
    results = _evaluate(_dataset(), {"mmd": _pipeline(penalty="mmd", weight=10.0)}, tmp_path)
    assert len(results) == 4
    assert results["score_valid"].between(0, 1).all()
    assert np.isfinite(results["score"]).all()
    assert (results["score"] == results["score_balanced_accuracy"]).all()
    validated = dict(zip(results["subject"].astype(int), results["score_valid_subject"].astype(int)))
    assert validated == {1: 2, 2: 3, 3: 4, 4: 1}
    assert list(tmp_path.rglob("*.hdf5"))


def test_weights_have_separate_cached_results(tmp_path):
    dataset = _dataset(subjects=(1, 2, 3, 4))
    first = {f"w{weight}": _pipeline(weight=weight) for weight in (0.0, 30.0)}
    results = _evaluate(dataset, first, tmp_path)
    assert len(results) == 8
    weights = results.pivot_table(index="subject", columns="pipeline", values="score_weights")
    assert (weights["w0.0"] != weights["w30.0"]).all()
    # A second run reads both from the file and trains a third weight alone.
    again = _evaluate(dataset, {**first, "w1.0": _pipeline(weight=1.0)}, tmp_path)
    assert len(again) == 12
    old = again.pivot_table(index="subject", columns="pipeline", values="time")
    new = results.pivot_table(index="subject", columns="pipeline", values="time")
    assert np.array_equal(old[new.columns], new)


class Spoilt(FakeDataset):
    """The same dataset, but subject 3 has other signals and other labels."""

    def _get_single_subject_data(self, subject):
        data = super()._get_single_subject_data(subject)
        if subject == 3:
            for run in data["0"].values():
                run._data[:-1] = 1e-3 * np.random.default_rng(0).normal(size=run._data[:-1].shape)
                run._data[-1] = np.where(run._data[-1] > 0, 3 - run._data[-1], 0)
        return data


def test_test_subject_does_not_influence_training(tmp_path):
    pipelines = {"adv": _pipeline(penalty="adv", weight=0.1, max_epochs=4)}
    clean = _evaluate(_dataset(), pipelines, tmp_path / "clean").set_index("subject")
    spoilt = _evaluate(_dataset(Spoilt), pipelines, tmp_path / "spoilt").set_index("subject")
    same = clean["score_weights"] == spoilt["score_weights"]
    assert same["3"], "the weights trained without subject 3 changed with subject 3"
    assert not same.drop("3").any(), "the spoilt subject changed nothing: this showed nothing"
    assert clean.loc["3", "score_valid"] == spoilt.loc["3", "score_valid"]
    assert clean.loc["3", "score"] != spoilt.loc["3", "score"]


class Recorded(CensoredEEGClassifier):
    """Records the target data that it was passed, and its state afterwards."""

    calls: ClassVar = []

    def fit(
        self, X, y=None, subjects=None, X_target_unlabeled=None, X_target_labeled=None, y_target_labeled=None
    ):
        targets = {
            "X_target_unlabeled": X_target_unlabeled,
            "X_target_labeled": X_target_labeled,
            "y_target_labeled": y_target_labeled,
        }
        targets = {name: value for name, value in targets.items() if value is not None}
        super().fit(X, y, subjects, **targets)
        n_passed = {name: len(value) for name, value in targets.items()}
        self.calls.append((n_passed, self.adapted_, self.head_ is not None, self.normalizer_.n_target_))
        return self


def _score(mode, folder):
    Recorded.calls.clear()
    clf = Recorded(max_steps=3, module__F1=4, module__D=1, batch_size=32, penalty=None)
    results = _evaluate(_dataset(subjects=(1, 2, 3)), {"clf": clf}, folder, scorer="roc_auc", cs_mode=mode)
    assert len(results) == 3
    assert np.isfinite(results["score"]).all()
    return results.sort_values("subject")["score"].to_numpy(), list(Recorded.calls)


def test_trialwise_mode_equals_block(tmp_path):
    whole, calls = _score(CrossSubjectMode.TRAIN, tmp_path / "whole")
    single, _ = _score(CrossSubjectMode.TRAIN_TRIALWISE, tmp_path / "single")
    np.testing.assert_allclose(whole, single)
    assert calls == [({}, False, False, 0)] * 3


@pytest.mark.parametrize(
    ("mode", "fraction", "labelled"),
    [
        ("train_and_target_unlabeled_20p", 0.2, False),
        ("train_and_target_unlabeled_full", 1.0, False),
        ("train_and_target_labeled_50p", 0.5, True),
    ],
)
def test_target_data_reach_the_decoder(tmp_path, mode, fraction, labelled):
    _, calls = _score(mode, tmp_path)
    assert len(calls) == 3
    for n_passed, adapted, corrected, n_target in calls:
        names = {"X_target_labeled", "y_target_labeled"} if labelled else {"X_target_unlabeled"}
        assert set(n_passed) == names
        assert adapted and corrected == labelled
        assert n_target == n_passed[min(n_passed)] == pytest.approx(24 * fraction, abs=1)
