"""Trainings: their keys, their results as bytes, the store, and the decoding of held-out subjects."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from subjects import mixed_subjects

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.classical.estimator import TangentSpaceClassifier
from braindecode_censor.run import training as training_module
from braindecode_censor.run.decode import adapt_to, calibration_mask, decode_subject
from braindecode_censor.run.fit import fit_training
from braindecode_censor.run.training import Training, TrainingResult, TrialData
from braindecode_censor.storage.store import Store

OPTIONS = {"module": "EEGNet", "module__F1": 2, "module__D": 1, "max_steps": 2, "penalty": None}


@pytest.fixture
def data():
    return TrialData(*mixed_subjects(4, 8))


def key(data, estimator=None, train=(1, 2), test=(3,), target="none", **options):
    estimator = estimator or CensoredEEGClassifier(**{**OPTIONS, **options})
    return Training("net", estimator, train, test, target).key(data)


def changed(data, subject, values="X"):
    """The trials with one value of one subject changed."""
    X, y = data.X.copy(), data.y.copy()
    row = data.rows([subject])[3]
    if values == "X":
        X[row, 1, 7] += 1e-3
    else:
        y[row] = 1 - y[row]
    return TrialData(X, y, data.subjects)


def test_key_changes_with_all_that_decides(data, monkeypatch):
    keys = [
        key(data),
        key(data, max_steps=3),
        key(data, random_state=1),
        key(data, module__F1=3),
        key(data, normalize="trial"),
        key(data, penalty="mmd"),
        key(data, valid_subject=1),
        key(data, TangentSpaceClassifier()),
        key(data, TangentSpaceClassifier(C=0.5)),
        key(data, train=(1, 2, 4)),
        key(data, test=(4,)),
        key(data, test=(3, 4)),
        key(data, target="unlabeled"),
        key(data, target="labeled"),
        *(key(changed(data, subject, values)) for subject in (2, 3) for values in "Xy"),
        key(TrialData(data.X.astype("float64"), data.y, data.subjects)),
    ]
    monkeypatch.setattr(training_module, "versions", lambda: {"torch": "9.9"})
    keys.append(key(data))
    assert len(set(keys)) == len(keys)


def test_key_ignores_what_changes_nothing(data):
    same = {
        key(data),
        key(data, verbose=3),
        key(changed(data, 4)),  # a subject that is neither trained on nor decoded
        Training("other name", CensoredEEGClassifier(**OPTIONS), (1, 2), (3,)).key(data),
        key(TrialData(data.X[::1], data.y.copy(), data.subjects.astype("int32"))),
    }
    assert len(same) == 1
    for all_subjects, valid_subject in (([1, 2, 3], 1), ([1, 3, 2], 2)):
        rotating = key(data, valid_subject="rotate", all_subjects=all_subjects)
        assert rotating == key(data, valid_subject=valid_subject)


def test_key_of_an_own_estimator_is_none(data):
    assert key(data, DummyClassifier()) is None


@pytest.mark.parametrize("estimator", [CensoredEEGClassifier(**OPTIONS), TangentSpaceClassifier("power")])
def test_result_as_bytes(data, estimator):
    training = Training("a", estimator, (1, 2), (3, 4), "unlabeled")
    result = fit_training(training, data)
    assert result.error is None and result.seconds > 0 and set(result.probabilities) == {3, 4}
    again = TrainingResult.from_bytes(training, result.to_bytes())
    assert (again.model, again.error) == (result.model, None)
    np.testing.assert_equal(again.record, result.record)  # A score may be NaN.
    for subject, P in result.probabilities.items():
        np.testing.assert_array_equal(again.probabilities[subject], P)
    np.testing.assert_array_equal(again.estimator().predict(data.X), result.estimator().predict(data.X))
    assert result.record["versions"]["torch"]
    if isinstance(estimator, CensoredEEGClassifier):
        assert len(result.record["history"]["train_loss"]) > 0 and result.record["params"]["max_steps"] == 2


@pytest.mark.parametrize(
    "options, start",
    [
        ({"lr": 1e30, "max_steps": 5, "normalize": "none"}, "DivergedError: "),
        ({"module__nonsense": 1}, "ValueError: module__nonsense=1"),
        ({"valid_subject": 9}, "ValueError: "),
    ],
)
def test_errors_are_results(data, options, start):
    result = fit_training(Training("a", CensoredEEGClassifier(**{**OPTIONS, **options}), (1, 2), (3,)), data)
    assert result.error.startswith(start) and not result.model and not result.probabilities
    assert result.diverged == start.startswith("Diverged") and not result.out_of_time
    again = TrainingResult.from_bytes(None, result.to_bytes())
    assert again.error == result.error and again.seconds == result.seconds


def test_result_refuses_other_bytes():
    with pytest.raises(
        ValueError, match="a training is not a saved braindecode-censor training, or it is damaged"
    ):
        TrainingResult.from_bytes(None, b"nothing")


def test_store_returns_what_was_written_and_nothing_damaged(tmp_path):
    store = Store(tmp_path / "a" / "b")
    assert store.read("k") is None and not store.folder.exists()
    store.write("k", b"content", seconds=2.0)
    assert store.read("k") == b"content" and store.read("other") is None
    assert [path.name for path in sorted(store.folder.iterdir())] == ["k.training", "log.jsonl"]
    assert '"seconds": 2.0' in (store.folder / "log.jsonl").read_text()
    whole = store.path("k").read_bytes()
    store.path("other").write_bytes(whole)  # The seal holds for one key.
    assert store.read("other") is None
    for damaged in (whole[:-1], whole + b"x", whole[:70], b"", b"0" * 64 + whole[64:]):
        store.path("k").write_bytes(damaged)
        assert store.read("k") is None
    store.write("k", b"again")
    assert store.read("k") == b"again"


def test_store_refuses_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file: name a folder"):
        Store(tmp_path / "file")


class Spy(DummyClassifier):
    """Records what it is given."""

    def adapt(self, X, y=None):
        self.calls = [(len(X), None if y is None else y.tolist())]
        return self


@pytest.mark.parametrize(
    "target, expected", [("none", []), ("unlabeled", [(10, None)]), ("labeled", [(2, [0, 1])])]
)
def test_decode_subject_gives_target_data_only(target, expected):
    X, y = np.zeros((10, 1, 4)), np.array([0, 1] * 5)
    model = Spy(strategy="uniform").fit(X[:, 0], y)
    model.calls = []
    P = decode_subject(model, X, y, target, 2)
    assert model.calls == expected
    assert np.isnan(P).any(axis=1).tolist() == [target == "labeled" and k < 2 for k in range(10)]


def test_calibration_mask_has_the_first_fifth_of_each_class_but_never_all():
    y = np.array([0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0])
    assert np.flatnonzero(calibration_mask(y)).tolist() == [0, 1, 2]


def test_unknown_classes_get_probability_zero():
    model = DummyClassifier(strategy="uniform").fit(np.zeros((4, 1)), [0, 2, 0, 2])
    P = decode_subject(model, np.zeros((3, 1)), np.zeros(3, int), "none", 4)
    np.testing.assert_array_equal(P, [[0.5, 0, 0.5, 0]] * 3)


def test_labels_reach_only_models_that_use_them_and_know_the_class():
    X, y = np.zeros((4, 1, 4)), np.array([0, 1, 2, 2])
    model = Spy().fit(X[:, 0], [0, 1, 0, 1])
    assert adapt_to(model, X, y).calls == [(2, [0, 1])]
    assert adapt_to(model, X[2:], y[2:]).calls == [(2, None)]
    model.uses_labels = False
    assert adapt_to(model, X, y).calls == [(4, None)]


def test_probabilities_that_are_not_finite_are_an_error(data):
    class Nan(DummyClassifier):
        def predict_proba(self, X):
            return np.full((len(X), 2), np.nan)

    result = fit_training(Training("nan", Nan(), (1, 2), (3,)), data)
    assert result.error == "ValueError: probabilities are not finite."
