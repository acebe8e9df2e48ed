"""The estimator follows the rules of scikit-learn and its protocol, for any shape of data."""

import mne
import numpy as np
import pandas as pd
import pytest
import torch
from braindecode.datasets import create_from_X_y
from rhythms import simulate
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from braindecode_censor import Censor, CensoredEEGClassifier


def _fit(data, quick, **options):
    return CensoredEEGClassifier(**{**quick, **options}).fit(*data)


def test_clone_is_unfitted(data, quick):
    clf = _fit(data, quick, weight=3.0, all_subjects=[1, 2, 3, 4, 5])
    copy = clone(clf)
    assert not hasattr(copy, "module_")
    assert copy.get_params(deep=False).keys() == CensoredEEGClassifier(**quick).get_params(deep=False).keys()
    assert (copy.weight, copy.all_subjects, copy.max_epochs) == (3.0, [1, 2, 3, 4, 5], quick["max_epochs"])
    # Braindecode writes n_chans into the parameters; a clone or a second fit would then reject other data.
    narrow = data[0][:, :2], data[1], data[2]
    assert _fit(narrow, copy.get_params(deep=False)).predict(narrow[0]).shape == (160,)
    assert clf.fit(*narrow).features(narrow[0]).shape[0] == 160


def test_set_params_before_fit(data, quick):
    clf = CensoredEEGClassifier(penalty="mmd", weight=1.0, **quick).fit(*data)
    clf.set_params(penalty="adv", weight=0.5, censoring="conditional").fit(*data)
    censor = dict(clf.callbacks_)["censor"]
    assert (censor.method, censor.weight, censor.mode) == ("adv", 0.5, "conditional")
    assert "subject_accuracy" in clf.history[-1]
    clf.set_params(penalty=None).fit(*data)
    assert not any(isinstance(callback, Censor) for _, callback in clf.callbacks_)


def test_grid_search_with_metadata_routing(data, quick):
    """As inside MOABB: one `subjects` feeds the folds and the estimator."""
    x, y, subjects = data
    clf = CensoredEEGClassifier("EEGNet", "pairmmd", **{**quick, "max_epochs": 1})
    grid = {"penalty__pairs": ["clique"], "penalty__size": [2, 3], "penalty__warmup": [0, 1]}
    with config_context(enable_metadata_routing=True):
        cv = GroupKFold(2).set_split_request(groups="subjects")
        search = GridSearchCV(clf, grid, cv=cv, error_score="raise").fit(x, y, subjects=subjects)
    assert search.best_params_ == {name: getattr(search.best_estimator_, name) for name in grid}


def test_pipeline(data, quick):
    x, y, subjects = data
    steps = [("scale", FunctionTransformer(lambda x: 1e6 * x)), ("net", CensoredEEGClassifier(**quick))]
    pipeline = Pipeline(steps).fit(1e-6 * x, y, net__subjects=subjects)
    with config_context(enable_metadata_routing=True):
        routed = Pipeline(clone(pipeline).steps).fit(1e-6 * x, y, subjects=subjects)
    assert np.array_equal(pipeline.predict(x), routed.predict(x))
    assert pipeline[-1].transform(x).shape == pipeline[-1].features(x).shape


@pytest.mark.parametrize("names", [["anna", "bert", "cleo", "dora", "emil"], [8, 9, 10, 11, 12]], ids=str)
def test_each_subject_validates_once(data, paper, names):
    x, y, subjects = data
    subjects = np.asarray(names)[subjects - 1]
    clf = CensoredEEGClassifier(all_subjects=None if names[0] == 8 else names, **{**paper, "max_epochs": 1})
    result = cross_validate(
        clf,
        x,
        y,
        groups=subjects,
        params={"subjects": subjects},
        cv=LeaveOneGroupOut(),
        return_estimator=True,
        return_indices=True,
        error_score="raise",
    )
    validated = [estimator.valid_subject_ for estimator in result["estimator"]]
    assert sorted(validated) == sorted(names)
    for estimator, test in zip(result["estimator"], result["indices"]["test"]):
        assert estimator.valid_subject_ not in subjects[test]


def test_defaults(data):
    clf = CensoredEEGClassifier()
    assert (clf.normalize, clf.augment, clf.schedule, clf.keep) == (
        "subject",
        "standard",
        "one_cycle",
        "last",
    )
    assert (clf.penalty, clf.censoring, clf.weight) == ("mmd", "conditional", 0.3)
    assert (clf.lr, clf.max_steps, clf.max_epochs, clf.valid_subject) == (3e-3, 1500, None, None)
    clf.set_params(max_steps=2).fit(*data)
    assert clf.best_epoch_ is None and np.isnan(clf.valid_score_) and "valid_loss" not in clf.history[-1]
    assert type(clf.optimizer_) is torch.optim.AdamW and clf.optimizer_.defaults["weight_decay"] == 0.01
    assert clf.batches_.shape[1] == 2  # classes of a batch
    assert type(clf.module_.final_layer[-1]).__name__.endswith("LinearWithConstraint")
    assert clf.features(data[0]).shape == (160, 16 * (96 // 32))
    old = CensoredEEGClassifier(module="EEGNetv4", max_steps=2).fit(*data)
    assert np.array_equal(old.predict_proba(data[0]), clf.predict_proba(data[0]))


def test_validation_subject_has_its_own_statistics(data, quick):
    x, y, subjects = data
    loud = np.where((subjects == 2)[:, None, None], 30 * x + 4, x).astype("float32")
    one, two = (_fit((signals, y, subjects), quick, valid_subject=2) for signals in (x, loud))
    np.testing.assert_allclose(one.history[:, "valid_loss"], two.history[:, "valid_loss"], rtol=1e-3)
    np.testing.assert_array_equal(one.normalizer_.population_, two.normalizer_.population_)
    assert one.history[:, "train_loss"] == two.history[:, "train_loss"]


def test_features_normalise_as_in_training(data, quick):
    """Gains of subjects, which normalisation removes, are no leakage."""
    x, y, subjects = data
    clf = _fit(data, quick)
    loud = (x * subjects[:, None, None] ** 2).astype("float32")
    np.testing.assert_allclose(clf.features(x, subjects), clf.features(loud, subjects), atol=1e-3)
    assert np.abs(clf.features(x) - clf.features(loud)).max() > 0.1


def test_best_epoch_has_the_minimum_validation_loss(data, paper):
    x, y, subjects = data
    clf = _fit(data, paper, max_epochs=12, lr=0.05, penalty=None)
    losses = clf.history[:, "valid_loss"]
    assert clf.best_epoch_ == np.argmin(losses) + 1 < 12, "the last epoch is the best: this shows nothing"
    valid = subjects == clf.valid_subject_
    proba = clf.predict_proba(x[valid])
    weight = clf.class_weight_.numpy()[y[valid]]
    loss = -(weight * np.log(proba[np.arange(valid.sum()), y[valid]])).sum() / weight.sum()
    assert loss == pytest.approx(min(losses), rel=1e-5)
    recalls = [(clf.predict(x[valid])[y[valid] == k] == k).mean() for k in (0, 1)]
    assert clf.valid_score_ == pytest.approx(np.mean(recalls))


def test_class_weights_of_training_subjects(paper):
    x, y, subjects = simulate(n_classes=4)
    y = np.minimum(y, 1)  # three of four trials are class 1
    y[subjects == 1] = 0  # the validation subject has other proportions
    clf = CensoredEEGClassifier(sampling="shuffle", **paper).fit(x, y, subjects)
    assert clf.valid_subject_ == 1
    np.testing.assert_allclose(clf.class_weight_, [0.75, 0.25])
    np.testing.assert_allclose(clf.train_weight_, [0.75, 0.25])
    # Batches with as many trials of each class need no weights, or the rare class would count twice.
    clf = CensoredEEGClassifier(**{**paper, "censoring": "conditional"}).fit(x, y, subjects)
    np.testing.assert_allclose(clf.class_weight_, [0.75, 0.25])
    np.testing.assert_allclose(clf.train_weight_, [0.5, 0.5])
    assert CensoredEEGClassifier(class_weighted=False, **paper).fit(x, y, subjects).class_weight_ is None


def test_validation_subject_is_not_trained_on(data, paper):
    """Its trials may choose the epoch, nothing else: with one epoch they choose nothing."""
    x, y, subjects = data
    spoilt = x.copy()
    spoilt[subjects == 1] = np.random.default_rng(1).normal(size=spoilt[subjects == 1].shape)
    one, two = (_fit((data, y, subjects), paper, max_epochs=1) for data in (x, spoilt))
    for name, tensor in one.module_.state_dict().items():
        assert torch.equal(tensor, two.module_.state_dict()[name])


def test_batch_norm_momentum(data, quick):
    assert _fit(data, quick).module_.bnorm_1.momentum == 0.1
    assert _fit(data, quick, batch_norm_momentum=None).module_.bnorm_1.momentum == 0.01
    assert _fit(data, quick, module__batch_norm_momentum=0.3).module_.bnorm_1.momentum == 0.3
    other = {name: value for name, value in quick.items() if "module__" not in name}
    clf = _fit((np.tile(data[0], 3), *data[1:]), other, module="ShallowFBCSPNet", batch_norm_momentum=0.2)
    assert clf.module_.bnorm.momentum == 0.2


@pytest.mark.parametrize(("method", "mode"), [("adv", "conditional"), ("pairmmd", "complementary")])
def test_33_classes_with_3_trials_each(method, mode):
    x, y, subjects = simulate(n_subjects=4, n_trials=99, n_classes=33, n_chans=1, n_times=64)
    clf = CensoredEEGClassifier(penalty=method, censoring=mode, weight=1.0, max_epochs=2, module__F1=4)
    clf.fit(x, y, subjects)
    proba = clf.predict_proba(x)
    assert proba.shape == (396, 33)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    assert np.isfinite(proba).all()
    assert all(torch.isfinite(tensor).all() for tensor in clf.module_.state_dict().values())
    assert all(np.isfinite(clf.history[:, "subject_penalty"]))
    assert set(clf.predict(x)) <= set(range(33))


@pytest.mark.parametrize("labels", [[5, 9], ["left", "right"], [-1, 1]], ids=str)
def test_class_labels_of_any_type(data, quick, labels):
    x, y, subjects = data
    clf = _fit((x, np.asarray(labels)[y], subjects), quick)
    reference = _fit(data, quick)
    assert clf.classes_.tolist() == labels
    assert np.array_equal(clf.predict(x), np.asarray(labels)[reference.predict(x)])
    assert clf.score(x, np.asarray(labels)[y]) == reference.score(x, y)


def test_epochs_and_braindecode_datasets(data, paper):
    x, y, subjects = data
    info = mne.create_info(4, sfreq=96.0, ch_types="eeg")
    epochs = mne.EpochsArray(x * 1e-6, info, metadata=pd.DataFrame({"subject": subjects}), verbose="error")
    dataset = create_from_X_y(x, y, drop_last_window=False, sfreq=96)
    dataset.set_description({"subject": subjects.tolist()})
    expected = _fit(data, paper).predict_proba(x)
    for inputs, classes in ((epochs, y), (dataset, None)):
        clf = CensoredEEGClassifier(**paper).fit(inputs, classes)
        assert clf.valid_subject_ == 1
        np.testing.assert_allclose(clf.predict_proba(inputs), expected, atol=1e-3)
    subset = torch.utils.data.Subset(dataset, range(40, 60))
    np.testing.assert_allclose(clf.predict_proba(subset), expected[40:60], atol=1e-3)


def test_penalty_options(data, quick):
    options = {"penalty": "mige", "penalty__score": "stein", "penalty__reg": 1e-2}
    options["penalty__lengthscale"] = "median"
    clf = _fit(data, quick, **options)
    reached = dict(clf.callbacks_)["censor"].get_params()
    assert (reached["score"], reached["reg"], reached["lengthscale"]) == ("stein", 1e-2, "median")
    other = _fit(data, quick, **{**options, "penalty__score": "tikhonov"})
    assert clf.history[:, "subject_penalty"] != other.history[:, "subject_penalty"]
    began = clone(CensoredEEGClassifier(penalty="began", penalty__gamma=0.7, **quick)).fit(*data)
    assert began.get_params()["penalty__gamma"] == 0.7
    assert dict(began.callbacks_)["censor"].options["gamma"] == 0.7
    began.set_params(penalty__gamma=0.6, penalty__warmup=3, penalty__critic_steps=2)
    censor = dict(began.callbacks_)["censor"]
    assert (censor.options["gamma"], censor.warmup, censor.critic_steps) == (0.6, 3, 2)
    loaded = CensoredEEGClassifier.from_bytes(began.to_bytes())
    assert loaded.get_params()["penalty__gamma"] == 0.6


def test_numpy_scalars(data, quick):
    options = {"max_steps": np.int64(2), "random_state": np.int64(3), "penalty__gamma": np.float32(0.5)}
    clf = CensoredEEGClassifier(penalty="began", **quick, **options).set_params(lr=np.float64(1e-3))
    types = [type(clf.get_params()[name]) for name in (*options, "lr")]
    assert types == [int, int, float, float]
    assert clone(clf).fit(*data).random_state == 3
