"""Does it run inside MOABB itself: real datasets, real evaluation, real YAML, real HDF5?"""

import warnings

import moabb
import numpy as np
import pytest
import yaml
from moabb.datasets.fake import FakeDataset
from moabb.evaluations import CrossSubjectEvaluation, WithinSessionEvaluation
from moabb.paradigms import P300
from sklearn.pipeline import make_pipeline

from braindecode_censor import CensoredEEGClassifier

moabb.set_log_level("error")
SMALL = {"module__F1": 4, "module__D": 1, "max_epochs": 2, "batch_size": 32}


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


def _certainty(estimator, X, y):
    return float((estimator.predict_proba(X) ** 2).sum(axis=1).mean())


SCORER = {
    "balanced_accuracy": "balanced_accuracy",
    "valid": _valid,
    "valid_subject": _valid_subject,
    "weights": _fingerprint,
    "certainty": _certainty,
}


def _evaluate(dataset, pipelines, folder, evaluation=CrossSubjectEvaluation, **options):
    paradigm = P300(resample=64, tmax=1.0, scorer=SCORER)
    options = {"hdf5_path": str(folder), "overwrite": False, "suffix": "front", **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluation(paradigm=paradigm, datasets=[dataset], **options).process(pipelines)


def _pipeline(**options):
    return make_pipeline(CensoredEEGClassifier(**{**SMALL, **options}))


def test_a_leave_one_subject_out_run_stores_the_validation_score(tmp_path):
    results = _evaluate(_dataset(), {"mmd": _pipeline(penalty="mmd", weight=10.0)}, tmp_path)
    assert len(results) == 4
    assert results["score_valid"].between(0, 1).all()
    assert np.isfinite(results["score"]).all()
    assert (results["score"] == results["score_balanced_accuracy"]).all()
    validated = dict(zip(results["subject"].astype(int), results["score_valid_subject"].astype(int)))
    assert validated == {1: 2, 2: 3, 3: 4, 4: 1}
    assert list(tmp_path.rglob("*.hdf5"))


def test_labels_with_gaps_rotate_with_a_roster(tmp_path):
    dataset = _dataset(subjects=(2, 5, 6, 11))
    results = _evaluate(dataset, {"mmd": _pipeline(roster=dataset.subject_list)}, tmp_path)
    assert sorted(results["score_valid_subject"]) == [2, 5, 6, 11]


def test_pipelines_that_differ_in_the_weight_alone_get_two_results(tmp_path):
    dataset = _dataset(subjects=(1, 2, 3, 4))
    first = {f"w{weight}": _pipeline(weight=weight) for weight in (0.0, 30.0)}
    results = _evaluate(dataset, first, tmp_path)
    assert len(results) == 8
    weights = results.pivot_table(index="subject", columns="pipeline", values="score_weights")
    assert (weights["w0.0"] != weights["w30.0"]).all()
    # A second run finds both in the file and trains neither again; a third weight is trained.
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


def test_the_test_subject_has_no_influence_on_training(tmp_path):
    pipelines = {"adv": _pipeline(penalty="adv", weight=0.1, max_epochs=4)}
    clean = _evaluate(_dataset(), pipelines, tmp_path / "clean").set_index("subject")
    spoilt = _evaluate(_dataset(Spoilt), pipelines, tmp_path / "spoilt").set_index("subject")
    same = clean["score_weights"] == spoilt["score_weights"]
    assert same["3"], "the weights trained without subject 3 changed with subject 3"
    assert not same.drop("3").any(), "the spoilt subject changed nothing: this showed nothing"
    assert clean.loc["3", "score_valid"] == spoilt.loc["3", "score_valid"]
    assert clean.loc["3", "score"] != spoilt.loc["3", "score"]


def test_an_evaluation_without_subjects_raises(tmp_path):
    with pytest.raises(ValueError, match=r"subjects=None.*CrossSubjectEvaluation"):
        _evaluate(_dataset(), {"mmd": _pipeline()}, tmp_path, WithinSessionEvaluation)


def test_benchmark_from_yaml(tmp_path, monkeypatch):
    folder = tmp_path / "pipelines"
    folder.mkdir()
    for weight in (0.1, 1.0):
        step = {
            "name": "CensoredEEGClassifier",
            "from": "braindecode_censor",
            "parameters": {"penalty": "adv", "censoring": "conditional", "weight": weight, **SMALL},
        }
        text = yaml.safe_dump({"name": f"adv {weight}", "paradigms": ["P300"], "pipeline": [step]})
        (folder / f"adv_{weight}.yml").write_text(text)
    contexts = tmp_path / "contexts.yml"
    contexts.write_text(yaml.safe_dump({"P300": {"resample": 64, "tmax": 1.0}}))
    monkeypatch.chdir(tmp_path)
    results = moabb.benchmark(
        pipelines=str(folder),
        evaluations=["CrossSubject"],
        paradigms=["P300"],
        include_datasets=[_dataset(subjects=(1, 2, 3, 4))],
        results=str(tmp_path / "results"),
        output=str(tmp_path / "output"),
        contexts=str(contexts),
        n_jobs=1,
    )
    assert sorted(results["pipeline"].unique()) == ["adv 0.1", "adv 1.0"]
    assert len(results) == 8
    assert np.isfinite(results["score"]).all()
