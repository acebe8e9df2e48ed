"""All datasets in MOABB's cross-subject evaluation and caches, with their labels."""

import numpy as np
import pytest
from moabb.datasets.base import CacheConfig
from moabb.evaluations import CrossSubjectEvaluation
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from braindecode_censor.datasets import (
    ASLEMG,
    RSVP,
    ECoGFaces,
    EpochsParadigm,
    ErrP,
    SimulatedSubjects,
    default_paradigm,
)


def flatten(X):
    """Some ten moments of every channel; resampling would take most of these tests' time."""
    return X[:, :, :: X.shape[2] // 10].reshape(len(X), -1)


def log_power(X):
    return np.log(X.var(axis=-1) + 1e-12)


def lda(feature):
    return make_pipeline(
        FunctionTransformer(feature), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5)
    )


@pytest.fixture
def recordings(errp_folder, ecog_folder, rsvp_folder, asl_folder):
    """A few subjects of each, and a paradigm that keeps the arrays small."""
    entries = {
        "errp": (ErrP(errp_folder[0], selected_subjects=[2, 6]), dict(tmax=0.3), flatten),
        "ecog": (ECoGFaces(ecog_folder[0], selected_subjects=[1, 2]), {}, flatten),
        "rsvp": (RSVP(rsvp_folder[0], selected_subjects=[1, 2, 3, 4]), {}, flatten),
        "asl": (ASLEMG(asl_folder[0], selected_subjects=[1, 2, 3, 4]), dict(fmin=10, fmax=400), log_power),
        "simulated": (SimulatedSubjects(4, 60, shift=0.0), {}, flatten),
    }
    return {
        name: (data, default_paradigm(data, **o), feature) for name, (data, o, feature) in entries.items()
    }


@pytest.mark.parametrize("name", ["errp", "ecog", "rsvp", "asl", "simulated"])
def test_a_linear_pipeline_learns_in_a_real_evaluation(recordings, name, tmp_path):
    """Well above chance: with labels of other trials it would sit at chance."""
    dataset, paradigm, feature = recordings[name]
    evaluation = CrossSubjectEvaluation(
        paradigm, datasets=[dataset], hdf5_path=str(tmp_path), random_state=0, overwrite=True
    )
    results = evaluation.process({"lda": lda(feature)})
    assert set(results["subject"].astype(str)) == {str(s) for s in dataset.subject_list}
    chance = 1 / len(dataset.event_id)
    assert results["score"].mean() > chance + 0.2 * (1 - chance)
    assert results["score_valid"].isna().all()  # this pipeline has no validation subject
    assert (results["score"] == results["score_balanced_accuracy"]).all()


# One recording of every kind of file, and every step of the cache; MOABB cannot cache continuous EMG.
STEPS = [("errp", "array"), ("ecog", "array"), ("asl", "epochs"), ("rsvp", "epochs"), ("simulated", "raw")]


@pytest.mark.parametrize(("name", "step"), STEPS)
def test_moabbs_cache_gives_the_same_trials(recordings, name, step, tmp_path, monkeypatch):
    dataset, paradigm, _ = recordings[name]
    subjects = dataset.subject_list[:1]
    config = CacheConfig(**{f"save_{step}": True}, use=True, path=str(tmp_path))
    fresh = paradigm.get_data(dataset, subjects=subjects, cache_config=config)
    monkeypatch.setattr(type(dataset), "_get_single_subject_data", _forbidden)
    X, y, metadata = paradigm.get_data(dataset, subjects=subjects, cache_config=config)
    # MOABB caches continuous signals as EDF, which rounds to 16 bits
    np.testing.assert_allclose(X, fresh[0], atol=(2e-2 if step == "raw" else 1e-4) * np.abs(fresh[0]).max())
    np.testing.assert_array_equal(y, fresh[1])
    assert list(metadata["session"]) == list(fresh[2]["session"])


def _forbidden(self, subject):
    raise AssertionError("the cache was not used")


def test_a_bids_folder_is_read_by_moabb_into_our_paradigm(tmp_path):
    """As in the documentation: a BIDS folder goes through MOABB's reader into our paradigm."""
    from moabb.datasets.base import LocalBIDSDataset

    simulated = SimulatedSubjects(2, 20)
    root = simulated.convert_to_bids(path=tmp_path)
    events = {"NonTarget": 1, "Target": 2}
    dataset = LocalBIDSDataset(root, events=events, interval=simulated.interval, paradigm="p300")
    X, y, metadata = EpochsParadigm().get_data(dataset)
    expected, labels, _ = simulated.arrays()
    np.testing.assert_allclose(X, expected, atol=1e-2 * np.abs(expected).max())  # EDF has 16 bits
    assert list(y) == [simulated.class_names[k] for k in labels] and len(set(metadata["subject"])) == 2
