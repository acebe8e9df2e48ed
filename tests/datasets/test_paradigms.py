"""Paradigms: filters, signals as recorded, and the validation score beside the accuracy."""

import contextlib
import math

import numpy as np
import pytest
import standins
from moabb.evaluations import CrossSubjectEvaluation
from moabb.evaluations.protocols import CrossSubjectMode
from moabb.paradigms import P300
from scipy.signal import welch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as LDA
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from braindecode_censor.datasets import (
    ASLEMG,
    ERP,
    EMGGestures,
    EpochsFolder,
    EpochsParadigm,
    ErrorPotentials,
    SimulatedSubjects,
    paper_scorer,
    save_subject,
    valid_score,
)


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    """EMG with a tone at 10 Hz and one at 80 Hz, 500 Hz, one second, plus noise."""
    folder = tmp_path_factory.mktemp("tones")
    t = np.arange(500) / 500
    for subject in (1, 2):
        rng = np.random.default_rng(subject)
        X = np.sin(2 * np.pi * 10 * t) + np.sin(2 * np.pi * 80 * t) + 0.1 * rng.standard_normal((8, 3, 500))
        save_subject(folder / f"subject_{subject}.npz", 1e-5 * X, np.arange(8) % 2, sfreq=500, ch_types="emg")
    return EpochsFolder(folder)


def power(X, frequency, sfreq):
    f, p = welch(X[..., 50:-50], sfreq, nperseg=250)
    return p[..., np.argmin(np.abs(f - frequency))].mean()


def test_emg_is_really_filtered(tones):
    plain = EMGGestures().get_data(tones)[0]
    high = EMGGestures(40, 200).get_data(tones)[0]
    low = EMGGestures(2, 30).get_data(tones)[0]
    assert power(high, 10, 500) < 1e-4 * power(plain, 10, 500)
    assert power(high, 80, 500) == pytest.approx(power(plain, 80, 500), rel=0.1)
    assert power(low, 80, 500) < 1e-4 * power(plain, 80, 500)
    assert power(low, 10, 500) == pytest.approx(power(plain, 10, 500), rel=0.1)


@pytest.mark.parametrize("paradigm", [ERP, EpochsParadigm])
def test_single_trials_are_scored_by_accuracy_with_a_warning(paradigm, tmp_path):
    dataset = SimulatedSubjects(3, 20, n_chans=4, sfreq=64.0)
    pipeline = make_pipeline(FunctionTransformer(lambda X: X[:, :, ::8].reshape(len(X), -1)), LDA())
    scores = {}
    for mode, scorer in (("TRAIN", "accuracy"), ("TRAIN_TRIALWISE", "accuracy"), ("TRAIN_TRIALWISE", None)):
        evaluation = CrossSubjectEvaluation(
            paradigm(scorer=scorer),
            datasets=[dataset],
            cs_mode=CrossSubjectMode[mode],
            hdf5_path=str(tmp_path),
            overwrite=True,
        )
        warning = pytest.warns(UserWarning, match="score is accuracy here, not balanced accuracy")
        with warning if scorer is None else contextlib.nullcontext():
            results = evaluation.process({"lda": pipeline})
        scores[mode, scorer] = results.sort_values("subject")["score"].tolist()
    assert len(set(map(tuple, scores.values()))) == 1
    assert np.mean(scores["TRAIN", "accuracy"]) > 0.5


def test_resampling_and_window(tones):
    X = EMGGestures(resample=100, tmin=0.2, tmax=0.6).get_data(tones)[0]
    assert X.shape == (16, 3, 40)
    assert power(EMGGestures(resample=250).get_data(tones)[0], 10, 250) > 0


def test_epochs_and_raws_are_still_given(tones):
    epochs = EMGGestures(40, 200).get_data(tones, return_epochs=True)[0]
    assert epochs.get_data(copy=False).shape == (16, 3, 500)
    assert len(EMGGestures().get_data(tones, return_raws=True)[0]) == 2


def test_events_can_be_selected(asl_folder):
    dataset = ASLEMG(asl_folder[0], selected_subjects=[1, 2])
    X, y, _ = EMGGestures(events=["sign03", "sign30"], resample=100).get_data(dataset)
    assert len(X) == 12 and set(y) == {"sign03", "sign30"}
    assert not EMGGestures(events=["sign99"]).is_valid(dataset) and not ErrorPotentials().is_valid(dataset)


def test_erp_is_p300_without_filters():
    dataset = SimulatedSubjects(2, 20)
    ours = ERP().get_data(dataset)[0]
    np.testing.assert_allclose(ours, P300(fmin=None, fmax=None).get_data(dataset)[0], rtol=1e-9)
    filtered = P300(1, 24).get_data(dataset)[0]
    np.testing.assert_allclose(ERP(1, 24).get_data(dataset)[0], filtered, atol=1e-6)
    assert list(ERP().scoring) == ["balanced_accuracy", "valid"]
    assert ERP(scorer="roc_auc").scoring == "roc_auc" and paper_scorer() != "roc_auc"


class Knows(DummyClassifier):
    """A classifier that measured something on its validation subject."""

    def fit(self, X, y):
        self.valid_score_ = 0.625
        return super().fit(X, y)


def test_the_validation_score_is_found_wherever_the_estimator_is():
    X, y = standins.epochs(12, 2, 4, 2, 0)
    X = X.reshape(12, -1)
    bare = Knows().fit(X, y)
    nested = make_pipeline("passthrough", make_pipeline(Knows())).fit(X, y)
    search = GridSearchCV(make_pipeline(Knows()), {"knows__strategy": ["prior"]}, cv=2).fit(X, y)
    assert [valid_score(e, X, y) for e in (bare, nested, search)] == [0.625] * 3
    assert math.isnan(valid_score(DummyClassifier().fit(X, y), X, y))
