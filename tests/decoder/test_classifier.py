"""AutoTransferClassifier: one fit, as scikit-learn knows estimators; its errors and warnings."""

import warnings

import numpy as np
import pytest
import torch
from rhythms import simulate
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from subjects import mixed_subjects

import braindecode_censor as bc
from braindecode_censor.decoder.ensemble import select_models
from braindecode_censor.run.model import find_device

NET = {"name": "net", "network": "EEGNet", "F1": 2, "D": 1, "max_steps": 6, "kernel": 0.1, "augment": None}
CANDIDATES = ["riemann", "power", NET]
X, Y, SUBJECTS = mixed_subjects(6)
LABELS = np.array(["left", "right"])[Y]
TRAIN = SUBJECTS < 6
DATA = {"X": X[TRAIN], "y": LABELS[TRAIN], "subjects": SUBJECTS[TRAIN]}
NEW, NEW_Y = X[~TRAIN], LABELS[~TRAIN]


def make(**options):
    return bc.AutoTransferClassifier(
        **{"candidates": CANDIDATES, "max_trainings": 21, "device": "cpu", "verbose": 0, **options}
    )


def fit(clf, **changed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clf.fit(**(DATA | changed))


@pytest.fixture(scope="module")
def fitted():
    return fit(make())


def test_adapted_decoder_decodes_a_new_subject(fitted):
    adapted = fitted.adapt(NEW)
    P = adapted.predict_proba(NEW)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (adapted.predict(NEW) == NEW_Y).mean() > 0.8
    np.testing.assert_array_equal(adapted.predict(NEW), fitted.classes_[P.argmax(axis=1)])
    assert fitted.classes_.tolist() == ["left", "right"] and fitted.subjects_.tolist() == [1, 2, 3, 4, 5]


def test_leaderboard_and_heldout_scores(fitted):
    board = fitted.leaderboard_.set_index("candidate")
    combinations = {"taught", "greedy ensemble", "average of the best 3", "best candidate alone"}
    assert set(board.index) == {"riemann", "power", "net"} | combinations
    assert board["weight"].sum() == pytest.approx(1)
    n_trainings = board.loc[["riemann", "power", "net"], "trainings"].sum()
    assert board.loc["greedy ensemble", "trainings"] == n_trainings <= 21
    assert (board["mean"].diff().dropna() <= 1e-12).all()
    heldout = fitted.heldout_
    assert sorted(heldout.scores) == [1, 2, 3, 4, 5] and heldout.low <= heldout.mean <= heldout.high
    assert heldout.mean == pytest.approx(board.loc["taught", "mean"])
    assert any("5 subjects are few" in text for text in heldout.warnings)


def test_trials_are_decoded_independently(fitted):
    for decoder in (fitted, fitted.adapt(NEW)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pair = decoder.predict_proba(NEW)[4:5], decoder.predict_proba(NEW[4:5])
        np.testing.assert_allclose(*pair, atol=1e-5)


def test_adapt_leaves_the_general_decoder_unchanged(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = fitted.predict_proba(NEW)
        adapted = fitted.adapt(NEW)
        np.testing.assert_array_equal(fitted.predict_proba(NEW), before)
    assert not np.allclose(adapted.predict_proba(NEW), before, atol=1e-3)
    assert adapted.adapted_ and not fitted.adapted_
    again = adapted.adapt(X[SUBJECTS == 1]).adapt(NEW)  # Every adaptation starts from the general decoder.
    np.testing.assert_array_equal(again.predict_proba(NEW), adapted.predict_proba(NEW))


def test_decoder_warns_once_that_it_is_not_adapted(fitted):
    clf = fitted.adapt(NEW)
    clf.ensemble_, clf.adapted_, clf._warned_not_adapted = clf.general_, False, False
    message = (
        r"target='unlabeled', but the decoder is not adapted; predictions use the statistics of the training "
        r"subjects\. Call adapt\(X\) first, or fit with target='none'\."
    )
    with pytest.warns(UserWarning, match=message):
        clf.predict(NEW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict(NEW)


def test_stream_is_causal_and_decodes(fitted):
    P = fitted.stream().predict_proba(NEW)
    later = np.concatenate([NEW[:8], 3 * NEW[8:][::-1]])
    np.testing.assert_allclose(fitted.stream().predict_proba(later)[:8], P[:8], atol=1e-6)
    stream = fitted.stream()
    blocks = [stream.predict_proba(block) for block in (NEW[:5], NEW[5:])]
    np.testing.assert_allclose(np.concatenate(blocks), P, atol=1e-6)
    assert (fitted.stream().predict(NEW) == NEW_Y).mean() > 0.7


def test_calibration_uses_labels():
    clf = fit(make(candidates=[NET], max_trainings=3, target="labeled"))
    calibrated = clf.adapt(NEW[:8], NEW_Y[:8]).predict_proba(NEW)
    flipped = clf.adapt(NEW[:8], NEW_Y[:8][::-1]).predict_proba(NEW)
    assert not np.allclose(calibrated, flipped, atol=1e-3)
    with pytest.raises(
        ValueError, match=r"y has labels that fit did not have: \['up'\]; fit had \['left', 'right'\]"
    ):
        clf.adapt(NEW[:2], ["left", "up"])
    with pytest.raises(ValueError, match="y has shape"):
        clf.adapt(NEW[:2], ["left"])


def test_equal_fits_with_and_without_target_data_have_equal_models_and_scores(fitted):
    """The search is repeatable, and the trials of the target subject have no part in it."""
    clf = fit(make(), X_target_unlabeled=NEW)
    assert clf.adapted_ and clf.heldout_.scores == fitted.heldout_.scores
    for a, b in zip(fitted.ensemble_.models, clf.general_.models, strict=True):
        assert (a.candidate, a.fold, a.weight) == (b.candidate, b.fold, b.weight)
    np.testing.assert_array_equal(clf.predict_proba(NEW), fitted.adapt(NEW).predict_proba(NEW))


@pytest.mark.filterwarnings("ignore")
def test_trials_in_a_file_give_the_decoder_of_trials_in_memory(tmp_path):
    signals, y, subjects = simulate(n_subjects=4, n_trials=16, n_times=64)
    file = np.memmap(tmp_path / "X", np.float32, "w+", shape=signals.shape)
    file[:] = signals
    candidates = ["power", {"name": "evoked", "classical": "xdawn", "n_filters": 2}, NET]
    memory, stored = (
        make(candidates=candidates, max_trainings=12, folder=folder).fit(data, y, subjects=subjects)
        for data, folder in ((signals, None), (file, tmp_path / "store"))
    )
    boards = [clf.leaderboard_.drop(columns="seconds").round(6) for clf in (memory, stored)]
    assert boards[0].equals(boards[1])
    np.testing.assert_allclose(stored.predict_proba(file), memory.predict_proba(signals), atol=1e-6)


def test_select_models_keeps_the_weights_of_candidates():
    models = select_models({"a": 0.7, "b": 0.3, "c": 0.0}, {name: list(range(40)) for name in "abc"})
    assert sum(weight for *_, weight in models) == pytest.approx(1)
    assert sum(weight for name, _, weight in models if name == "a") == pytest.approx(0.7)
    assert sum(name == "a" for name, *_ in models) == 22 and not any(name == "c" for name, *_ in models)
    assert len({(name, fold) for name, fold, _ in models}) == len(models) <= 33
    assert select_models({"a": 1.0}, {"a": [3]}) == [("a", 3, 1.0)]


def test_own_estimators_are_candidates():
    own = make_pipeline(FunctionTransformer(lambda X: np.log(X.var(axis=2))), LogisticRegression())
    clf = fit(
        make(candidates=[("own", own), DummyClassifier()], max_trainings=None, time_limit=None, target="none")
    )
    board = clf.leaderboard_.set_index("candidate")
    assert (
        board.loc["own", "weight"] > 0.9 and board.loc["own", "mean"] > board.loc["DummyClassifier", "mean"]
    )
    assert clf.heldout_.nested and "choices and weights that were made without this subject" in clf.model_card
    assert np.isfinite(clf.predict_proba(NEW)).all() and clf.adapt(NEW).predict_proba(NEW).shape == (20, 2)


def test_clone_and_not_fitted():
    clf = make(target="none", random_state=3)
    assert clone(clf).get_params() == clf.get_params() and "AutoTransferClassifier" in repr(clf)
    for method in (clf.predict, clf.adapt, clf.save):
        with pytest.raises(NotFittedError):
            method(NEW)


def test_grid_search_over_target():
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = make(candidates=["power"], max_trainings=3)
        cv = LeaveOneGroupOut().set_split_request(groups="subjects")
        search = GridSearchCV(clf, {"target": ["none", "unlabeled"]}, cv=cv, error_score="raise")
        search.fit(X, LABELS, subjects=SUBJECTS)
    assert list(search.cv_results_["param_target"]) == ["none", "unlabeled"]
    assert search.best_estimator_.target == search.best_params_["target"]
    assert search.best_estimator_.subjects_.tolist() == np.unique(SUBJECTS).tolist()
    assert search.cv_results_["mean_test_score"].min() > 0.6


def one_class_subject():
    y = LABELS[TRAIN].copy()
    y[SUBJECTS[TRAIN] == 2] = "left"
    return {"y": y}


def class_of_one_subject():
    y = LABELS[TRAIN].astype("U8")
    y[np.flatnonzero(SUBJECTS[TRAIN] == 3)[:4]] = "up"
    return {"y": y}


def with_nan():
    signals = X[TRAIN].copy()
    signals[7, 1, 3] = np.nan
    return {"X": signals}


BAD_DATA = {
    "two subjects": (
        {name: values[SUBJECTS[TRAIN] <= 2] for name, values in DATA.items()},
        "subjects: 2 subjects, but at least 3 are needed",
    ),
    "one class of a subject": (
        one_class_subject(),
        r"Subject 2 has trials of one class only \(\['left'\]\)\. A held-out score needs at least two classes: remove "
        "the subject or add trials",
    ),
    "class of one subject": (
        class_of_one_subject(),
        r"Class 'up' occurs only in subject 3\. Every class must occur in at least two subjects, since subjects are "
        "held out in turn",
    ),
    "one class": ({"y": np.zeros(TRAIN.sum(), int)}, r"y holds one class, \[0\]"),
    "NaN": (with_nan(), "X has NaN or infinite values in 1 of 100 trials, first in trial 7"),
    "constant": ({"X": np.ones_like(X[TRAIN])}, "all channels are constant in all trials"),
    "no subjects": ({"subjects": None}, "subjects=None: the search holds subjects out"),
    "too few labels": ({"y": LABELS[:5]}, "y has shape"),
    "two dimensions": ({"X": X[TRAIN][:, 0]}, "X has shape"),
}


@pytest.mark.parametrize("data, message", BAD_DATA.values(), ids=BAD_DATA)
def test_fit_refuses_data(data, message):
    with pytest.raises(ValueError, match=message):
        fit(make(), **data)


BAD_OPTIONS = [
    ({"target": "unlabelled"}, "target='unlabelled' is unknown; choose from"),
    ({"max_trainings": None, "time_limit": "soon"}, "time_limit='soon' must be seconds"),
    ({"max_trainings": None, "time_limit": 1e-3}, "is too short for one training"),
    ({"max_trainings": 0}, "max_trainings=0 must be an integer"),
    ({"candidates": ["rieman"]}, "Did you mean 'riemann'"),
    ({"device": "tpu"}, "device='tpu' is unknown; use 'auto', 'cpu' or 'cuda'"),
    ({"random_state": -1}, "random_state=-1 must be an integer of at least 0"),
    ({"partners": 1}, "partners=1 must be an integer of at least 2"),
    ({"n_jobs": "2"}, "n_jobs='2' must be an integer"),
    ({"n_jobs": 0}, "n_jobs=0 must be an integer"),
    ({"ch_names": ["a", "b"]}, "ch_names has 2 names and X has 4 channels"),
    ({"ch_names": list("abca")}, "ch_names has a name twice"),
    ({"sfreq": -1}, "sfreq=-1 must be"),
    ({"sfreq": "64"}, "sfreq='64' must be"),
]


@pytest.mark.parametrize("options, message", BAD_OPTIONS, ids=[str(options) for options, _ in BAD_OPTIONS])
def test_fit_refuses_options(options, message):
    with pytest.raises(ValueError, match=message):
        fit(make(**options))


def test_fit_refuses_target_data_that_target_excludes():
    with pytest.raises(ValueError, match="target='none' excludes target data"):
        fit(make(target="none"), X_target_unlabeled=NEW)
    with pytest.raises(ValueError, match="X_target_labeled together with y_target_labeled"):
        fit(make(), X_target_labeled=NEW)


def test_fit_warns_of_a_new_subject_who_is_a_training_subject():
    with pytest.warns(UserWarning, match="'the new subject' have trials in common"):
        make(candidates=["power"], max_trainings=3).fit(**DATA, X_target_unlabeled=X[SUBJECTS == 1])


def test_fit_warns_of_the_sampling_rate_that_networks_assume():
    with pytest.warns(UserWarning, match="sfreq is not given: 128 samples per second"):
        make(candidates=[NET], max_trainings=3).fit(**DATA)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(candidates=["power"], max_trainings=3).fit(**DATA)
        make(candidates=[NET], max_trainings=3, sfreq=64).fit(**DATA)
    assert not [one for one in caught if "sfreq" in str(one.message)]


def test_fit_warns_of_a_failed_candidate():
    broken = {**NET, "name": "broken", "module__pool1_kernel_size": 10**4}
    with pytest.warns(UserWarning, match="candidate 'broken' failed and is left out"):
        clf = make(candidates=["power", broken], max_trainings=6).fit(**DATA)
    assert "broken" in clf.errors_ and "broken failed" in clf.model_card


def test_gain_is_over_the_plain_network_or_not_given():
    nets = [{**NET, "name": name, "max_steps": 20, "lr": 0.01} for name in ("first", "paper")]
    clf = fit(make(candidates=nets, max_trainings=12))
    assert clf.heldout_.gain["over"] == "paper" and "Gain over `paper`" in clf.model_card
    nets[1]["name"] = "second"
    clf = fit(make(candidates=nets, max_trainings=12))
    assert clf.heldout_.gain == {} and "Gain over" not in clf.model_card


@pytest.mark.parametrize("has_gpu", [True, False])
def test_find_device(monkeypatch, has_gpu):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    assert find_device("cpu") == "cpu" and find_device("auto") == ("cuda" if has_gpu else "cpu")
    if not has_gpu:
        with pytest.raises(ValueError, match="device='cuda': torch finds no GPU"):
            find_device("cuda")
