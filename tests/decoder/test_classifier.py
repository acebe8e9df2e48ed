"""AutoTransferClassifier: one fit, as scikit-learn knows estimators; what it refuses."""

import warnings

import mne
import numpy as np
import pytest
import torch
from subjects import mixed_subjects
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import braindecode_censor as bc
from braindecode_censor.decoder.classifier import find_device
from braindecode_censor.decoder.ensemble import share_out_models

NET = {"name": "net", "network": "EEGNet", "F1": 2, "D": 1, "max_steps": 6, "kernel": 0.1, "augment": None}
CANDIDATES = ["riemann", "power", NET]
X, Y, SUBJECTS = mixed_subjects(6)
LABELS = np.array(["left", "right"])[Y]
SEEN = SUBJECTS < 6
ALL = {"X": X[SEEN], "y": LABELS[SEEN], "subjects": SUBJECTS[SEEN]}
NEW, NEW_Y = X[~SEEN], LABELS[~SEEN]


def make(**options):
    return bc.AutoTransferClassifier(
        **{"candidates": CANDIDATES, "max_trainings": 21, "device": "cpu", "verbose": 0, **options}
    )


def fit(clf, X=X[SEEN], y=LABELS[SEEN], subjects=SUBJECTS[SEEN], **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clf.fit(X, y, subjects=subjects, **more)


@pytest.fixture(scope="module")
def fitted():
    return fit(make())


def test_it_decodes_a_person_it_has_not_seen(fitted):
    person = fitted.adapt(NEW)
    P = person.predict_proba(NEW)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (person.predict(NEW) == NEW_Y).mean() > 0.8
    assert (person.predict(NEW) == np.roll(NEW_Y, 1)).mean() < 0.2
    np.testing.assert_array_equal(person.predict(NEW), fitted.classes_[P.argmax(axis=1)])
    assert fitted.classes_.tolist() == ["left", "right"]


def test_leaderboard_and_expectation(fitted):
    board = fitted.leaderboard_.set_index("candidate")
    assert {
        "riemann",
        "power",
        "net",
        "greedy ensemble",
        "average of the best 3",
        "best candidate alone",
    } == set(board.index)
    assert board["weight"].sum() == pytest.approx(1)
    assert (
        board.loc["greedy ensemble", "trainings"]
        == board["trainings"].dropna()[["riemann", "power", "net"]].sum()
    )
    assert (board["mean"].diff().dropna() <= 1e-12).all()
    assert sorted(fitted.heldout_.scores) == [1, 2, 3, 4, 5]
    assert fitted.heldout_.mean == pytest.approx(board.loc["greedy ensemble", "mean"])
    assert fitted.heldout_.low <= fitted.heldout_.mean <= fitted.heldout_.high
    assert any("5 people are few" in text for text in fitted.heldout_.warnings)


def test_a_trial_does_not_depend_on_the_trials_beside_it(fitted):
    for decoder in (fitted, fitted.adapt(NEW)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_allclose(
                decoder.predict_proba(NEW)[4:5], decoder.predict_proba(NEW[4:5]), atol=1e-5
            )


def test_adapting_leaves_the_general_decoder_as_it_was(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = fitted.predict_proba(NEW)
        person = fitted.adapt(NEW)
        np.testing.assert_array_equal(fitted.predict_proba(NEW), before)
    assert not np.allclose(person.predict_proba(NEW), before, atol=1e-3)
    assert person.adapted_ and not fitted.adapted_
    again = person.adapt(X[SUBJECTS == 1]).adapt(NEW)  # from the general one, whoever was there in between
    np.testing.assert_array_equal(again.predict_proba(NEW), person.predict_proba(NEW))


def test_without_trials_of_the_person_it_says_so_once(fitted):
    clf = fitted.adapt(NEW)
    clf.ensemble_, clf.adapted_, clf._told = clf.general_, False, False
    with pytest.warns(UserWarning, match="has no trials of the new person"):
        clf.predict(NEW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict(NEW)


def test_a_stream_is_causal(fitted):
    P = fitted.stream().predict_proba(NEW)
    later = np.concatenate([NEW[:8], 3 * NEW[8:][::-1]])
    np.testing.assert_allclose(fitted.stream().predict_proba(later)[:8], P[:8], atol=1e-6)
    stream = fitted.stream()
    parts = [stream.predict_proba(part) for part in (NEW[:5], NEW[5:])]
    np.testing.assert_allclose(np.concatenate(parts), P, atol=1e-6)
    assert (fitted.stream().predict(NEW) == NEW_Y).mean() > 0.7


def test_labels_of_the_person_are_used():
    clf = fit(make(candidates=[NET], max_trainings=3, target="labeled"))
    with_labels = clf.adapt(NEW[:8], NEW_Y[:8]).predict_proba(NEW)
    flipped = clf.adapt(NEW[:8], NEW_Y[:8][::-1]).predict_proba(NEW)
    assert not np.allclose(with_labels, flipped, atol=1e-3)
    with pytest.raises(ValueError, match=r"y has classes that fit did not have: \['up'\]"):
        clf.adapt(NEW[:2], ["left", "up"])
    with pytest.raises(ValueError, match="y has shape"):
        clf.adapt(NEW[:2], ["left"])


def test_trials_of_the_new_person_in_fit(fitted):
    clf = fit(make(), X_target_unlabeled=NEW)
    assert clf.adapted_
    np.testing.assert_array_equal(clf.predict_proba(NEW), fitted.adapt(NEW).predict_proba(NEW))
    assert clf.heldout_.scores == fitted.heldout_.scores  # the new person has no part in the search


def test_equal_searches_give_equal_decoders(fitted):
    again = fit(make())
    for a, b in zip(fitted.ensemble_.models, again.ensemble_.models, strict=True):
        assert (a.candidate, a.position, a.weight) == (b.candidate, b.position, b.weight)
    np.testing.assert_array_equal(again.adapt(NEW).predict_proba(NEW), fitted.adapt(NEW).predict_proba(NEW))
    other = fit(make(random_state=1))
    assert not np.array_equal(other.adapt(NEW).predict_proba(NEW), fitted.adapt(NEW).predict_proba(NEW))


def test_the_weights_of_models_sum_to_their_candidates():
    chosen = share_out_models({"a": 0.7, "b": 0.3, "c": 0.0}, list(range(40)))
    assert sum(w for *_, w in chosen) == pytest.approx(1)
    assert sum(w for name, _, w in chosen if name == "a") == pytest.approx(0.7)
    assert sum(name == "a" for name, *_ in chosen) == 22 and not any(name == "c" for name, *_ in chosen)
    assert len({(name, p) for name, p, _ in chosen}) == len(chosen) <= 33
    assert len(share_out_models({"a": 1.0}, [3])) == 1


def test_own_estimators_compete():
    def power(X):
        return np.log(X.var(axis=2))

    from sklearn.linear_model import LogisticRegression

    own = make_pipeline(FunctionTransformer(power), LogisticRegression())
    clf = fit(
        make(candidates=[("own", own), DummyClassifier()], max_trainings=None, time_limit=None, target="none")
    )
    board = clf.leaderboard_.set_index("candidate")
    assert (
        board.loc["own", "weight"] > 0.9 and board.loc["own", "mean"] > board.loc["DummyClassifier", "mean"]
    )
    assert clf.heldout_.strict
    assert np.isfinite(clf.predict_proba(NEW)).all()
    assert clf.adapt(NEW).predict_proba(NEW).shape == (20, 2)


def test_scikit_learn_knows_it():
    clf = make(target="none", random_state=3)
    copied = clone(clf)
    assert copied.get_params() == clf.get_params() and copied is not clf
    assert "AutoTransferClassifier" in repr(clf)
    with pytest.raises(NotFittedError):
        clf.predict(NEW)
    with pytest.raises(NotFittedError):
        clf.adapt(NEW)


def test_a_grid_search_over_what_is_known():
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


def epochs(X, names, subjects=None, sfreq=64.0):
    info = mne.create_info(names, sfreq, "eeg")
    events = np.column_stack([np.arange(len(X)), np.zeros(len(X), int), np.ones(len(X), int)])
    made = mne.EpochsArray(X * 1e-6, info, events, verbose="error")
    if subjects is not None:
        import pandas as pd

        made.metadata = pd.DataFrame({"subject": subjects})
    return made


def test_channels_are_found_by_name():
    names = ["Fz", "Cz", "Pz", "Oz"]
    clf = make(candidates=["power", "riemann"], max_trainings=6)
    fit(clf, epochs(X[SEEN], names, SUBJECTS[SEEN]), LABELS[SEEN], None)
    assert clf.input_.ch_names == names and clf.input_.sfreq == 64
    plain = clf.adapt(epochs(NEW, names)).predict_proba(epochs(NEW, names))
    order = [2, 0, 3, 1]
    turned = epochs(NEW[:, order], [names[k] for k in order])
    np.testing.assert_allclose(clf.adapt(turned).predict_proba(turned), plain, atol=1e-6)
    more = epochs(np.concatenate([NEW[:, :1], NEW], axis=1), ["EOG", *names])
    np.testing.assert_allclose(clf.adapt(more).predict_proba(more), plain, atol=1e-6)
    with pytest.raises(ValueError, match="X lacks 1 of the decoder's 4 channels: Oz"):
        clf.predict(epochs(NEW[:, :3], names[:3]))
    with pytest.raises(ValueError, match="X has 32 samples per second, the decoder was fitted with 64"):
        clf.predict(epochs(NEW, names, sfreq=32.0))
    with pytest.raises(ValueError, match="X has 3 channels, the decoder was fitted with 4"):
        clf.predict(NEW[:, :3])
    with pytest.raises(ValueError, match="X has 60 samples per trial, the decoder was fitted with 64"):
        clf.predict(NEW[..., :60])


def one_class_person():
    y = LABELS[SEEN].copy()
    y[SUBJECTS[SEEN] == 2] = "left"
    return {"y": y}


def class_of_one_person():
    y = LABELS[SEEN].astype("U8")
    y[np.flatnonzero(SUBJECTS[SEEN] == 3)[:4]] = "up"
    return {"y": y}


def with_nan():
    spoilt = X[SEEN].copy()
    spoilt[7, 1, 3] = np.nan
    return {"X": spoilt}


TWO = SUBJECTS[SEEN] <= 2
BAD_DATA = {
    "one person": (
        {name: values[SUBJECTS[SEEN] == 1] for name, values in ALL.items()},
        "subjects: 1 people, but at least 3 are needed",
    ),
    "two people": (
        {"X": X[SEEN][TWO], "y": LABELS[SEEN][TWO], "subjects": SUBJECTS[SEEN][TWO]},
        "subjects: 2 people, but at least 3 are needed",
    ),
    "one class of a person": (one_class_person(), r"subject 2 has trials of one class only, \['left'\]"),
    "class of one person": (class_of_one_person(), "class up occurs in one person only, subject 3"),
    "one class": ({"y": np.zeros(SEEN.sum(), int)}, r"y holds one class, \[0\]"),
    "NaN": (with_nan(), "X has NaN or infinite values in 1 of 100 trials, first in trial 7"),
    "nothing varies": ({"X": np.ones_like(X[SEEN])}, "all channels are constant in all trials"),
    "no subjects": ({"subjects": None}, "subjects=None: the search leaves people out"),
    "too few labels": ({"y": LABELS[:5]}, "y has shape"),
    "two dimensions": ({"X": X[SEEN][:, 0]}, "X has shape"),
}


@pytest.mark.parametrize("data, message", BAD_DATA.values(), ids=BAD_DATA)
def test_data_that_no_decoder_can_be_made_of(data, message):
    with pytest.raises(ValueError, match=message):
        fit(make(), **data)


BAD_OPTIONS = {
    "target": ({"target": "unlabelled"}, "target='unlabelled' is unknown; choose from"),
    "time": ({"max_trainings": None, "time_limit": "soon"}, "time_limit='soon' must be seconds"),
    "short time": ({"max_trainings": None, "time_limit": 1e-3}, "is too short for one training"),
    "trainings": ({"max_trainings": 0}, "max_trainings=0 must be an integer"),
    "candidates": ({"candidates": ["rieman"]}, "Did you mean 'riemann'"),
    "device": ({"device": "tpu"}, "device='tpu' is unknown; use 'auto', 'cpu' or 'cuda'"),
    "seed": ({"random_state": -1}, "random_state=-1 must be an integer of at least 0"),
    "names": ({"ch_names": ["a", "b"]}, "ch_names has 2 names and X has 4 channels"),
    "same names": ({"ch_names": list("abca")}, "ch_names has a name twice"),
}


@pytest.mark.parametrize("options, message", BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fit(make(**options))


def test_trials_that_target_forbids():
    with pytest.raises(ValueError, match="target='none' says that nothing is known"):
        fit(make(target="none"), X_target_unlabeled=NEW)
    with pytest.raises(ValueError, match="X_target_labeled together with y_target_labeled"):
        fit(make(), X_target_labeled=NEW)


def test_a_new_person_who_is_among_the_people_is_told():
    with pytest.warns(UserWarning, match="'the new person' have trials in common"):
        make(candidates=["power"], max_trainings=3).fit(
            X[SEEN], LABELS[SEEN], subjects=SUBJECTS[SEEN], X_target_unlabeled=X[SUBJECTS == 1]
        )


def test_a_failed_candidate_is_told():
    broken = {**NET, "name": "broken", "module__nonsense": 1}
    with pytest.warns(UserWarning, match="candidate 'broken' failed and is left out"):
        clf = make(candidates=["power", broken], max_trainings=6).fit(
            X[SEEN], LABELS[SEEN], subjects=SUBJECTS[SEEN]
        )
    assert "broken" in clf.errors_ and "broken failed" in clf.model_card


def test_a_plain_decoder_that_was_dropped_early_is_no_measure_of_the_gain():
    """It stands on the leaderboard with the short trainings that it had; the next plain one is compared with."""
    bad = {**NET, "name": "paper", "lr": 1e-9}
    good = [{**NET, "name": name, "max_steps": 20, "lr": 0.01} for name in ("first", "second")]
    clf = fit(make(candidates=[bad, *good], max_trainings=12))
    assert "paper" in set(clf.leaderboard_["candidate"])
    assert clf.heldout_.gain["over"] == "first" and "Gain over `first`" in clf.model_card
    assert not clf.heldout_.strict and "was decided by everybody's scores" in clf.model_card


def test_the_card_says_when_nobodys_scores_had_a_part_in_what_was_trained():
    clf = fit(make(candidates=["power", "riemann"], max_trainings=None, time_limit=None))
    assert clf.heldout_.strict and "choices and weights that were made without this person" in clf.model_card


@pytest.mark.parametrize("there", [True, False])
def test_devices(monkeypatch, there):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert find_device("cpu") == "cpu" and find_device("auto") == ("cuda" if there else "cpu")


def test_a_persons_labels_have_no_part_in_the_choice_for_this_person(fitted):
    y = LABELS[SEEN].copy()
    mine = SUBJECTS[SEEN] == 4
    y[mine] = np.where(y[mine] == "left", "right", "left")
    turned = fit(make(), y=y)
    # Whoever tests person 4 has been trained and chosen without this person, so exactly what was right is wrong now.
    assert turned.heldout_.scores[4] == pytest.approx(1 - fitted.heldout_.scores[4])
    assert turned.heldout_.scores != fitted.heldout_.scores
