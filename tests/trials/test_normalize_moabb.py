"""Does the normaliser work in front of anybody's pipeline, in all of MOABB's cross-subject modes?"""

import warnings

import numpy as np
import pytest
from moabb.evaluations import CrossSubjectEvaluation
from moabb.evaluations.protocols import CrossSubjectMode
from pyriemann.estimation import Covariances
from pyriemann.tangentspace import TangentSpace
from sklearn import config_context
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline

from braindecode_censor.datasets import ERP, SimulatedSubjects
from braindecode_censor.trials.normalize import SubjectNormalizer

DATA = {"n_subjects": 4, "n_trials": 24, "n_chans": 4, "sfreq": 64.0}


def tangent_space(normalizer):
    return make_pipeline(normalizer, Covariances("lwf"), TangentSpace(), LinearDiscriminantAnalysis())


def test_a_pipeline_routes_subjects_and_the_new_persons_trials():
    X, y, subjects = SimulatedSubjects(**DATA).arrays()
    train, test = subjects != 4, subjects == 4
    with config_context(enable_metadata_routing=True):
        pipe = tangent_space(SubjectNormalizer("euclidean"))
        pipe.fit(X[train], y[train], subjects=subjects[train], X_target_unlabeled=X[test])
    expected = SubjectNormalizer("euclidean").fit(X[train], subjects=subjects[train]).adapt(X[test])
    np.testing.assert_allclose(pipe[0].transform(X[test]), expected.transform(X[test]))
    by_hand = SubjectNormalizer("euclidean").fit_transform(X[train], subjects=subjects[train])
    classical = make_pipeline(Covariances("lwf"), TangentSpace(), LinearDiscriminantAnalysis())
    classical.fit(by_hand, y[train])
    np.testing.assert_allclose(
        pipe.predict_proba(X[test]), classical.predict_proba(expected.transform(X[test])), atol=1e-8
    )


def test_without_routing_the_step_takes_subjects_by_its_name():
    X, y, subjects = SimulatedSubjects(**DATA).arrays()
    pipe = tangent_space(SubjectNormalizer("subject")).fit(X, y, subjectnormalizer__subjects=subjects)
    assert pipe[0].subjects_.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", list(CrossSubjectMode), ids=lambda mode: mode.name.lower())
def test_every_mode_of_moabb(mode, tmp_path, monkeypatch):
    seen = []
    fit_transform = SubjectNormalizer.fit_transform

    def spy(self, X, y=None, **params):
        out = fit_transform(self, X, y, **params)
        seen.append((set(params), self.n_target_))
        return out

    monkeypatch.setattr(SubjectNormalizer, "fit_transform", spy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = CrossSubjectEvaluation(
            ERP(scorer="accuracy"),
            datasets=[SimulatedSubjects(**DATA)],
            cs_mode=mode,
            hdf5_path=str(tmp_path),
            overwrite=True,
        )
        results = evaluation.process({"ts": tangent_space(SubjectNormalizer("euclidean"))})
    assert len(results) == 4
    assert results["score"].between(0, 1).all()
    offered = {"subjects"}
    if "UNLABELED" in mode.name:
        offered |= {"X_target_unlabeled"}
    elif "LABELED" in mode.name:
        offered |= {"X_target_labeled", "y_target_labeled"}
    share = {"20P": 0.2, "50P": 0.5, "FULL": 1.0}.get(mode.name.rsplit("_", 1)[-1], 0)
    assert all(params == offered for params, _ in seen)
    assert [n for _, n in seen] == pytest.approx([24 * share] * 4, abs=1)
