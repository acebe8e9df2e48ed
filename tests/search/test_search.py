"""A search that really trains: what models and weights may see, and that it is repeatable and can be resumed."""

import numpy as np
import pytest
from processes import forking_joblib
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from subjects import mixed_subjects

from braindecode_censor.run import runner
from braindecode_censor.run.decode import decode_subject
from braindecode_censor.run.model import unpack_model
from braindecode_censor.run.training import TrialData
from braindecode_censor.search.budget import Budget
from braindecode_censor.search.family import find_candidates
from braindecode_censor.search.folds import FoldedTrials, make_folds
from braindecode_censor.search.queue import Search
from braindecode_censor.storage.store import Store

TINY = {"network": "EEGNet", "F1": 2, "D": 1, "max_steps": 3, "kernel": 0.1, "augment": None}
NETS = [{"name": name, **TINY, "normalize": name} for name in ("subject", "trial")]
CANDIDATES = ["riemann", "power", NETS[0]]


def make_trials(target="unlabeled", n_subjects=5, seed=0, change=lambda X, y, subjects: None):
    X, y, subjects = mixed_subjects(n_subjects)
    change(X, y, subjects - 1)
    return FoldedTrials(TrialData(X, y, subjects - 1), make_folds(n_subjects), target, random_state=seed)


def search(candidates, trials=None, store=None, n_jobs=1, report=lambda *_: None, **limits):
    configured, censored = find_candidates(candidates)
    trials = trials or make_trials()
    return Search(trials, configured, censored, Budget(**limits), store, n_jobs, report=report).run()


@pytest.fixture(scope="module")
def everything():
    return search(CANDIDATES)


class Power(ClassifierMixin, BaseEstimator):
    """An estimator of a user: logistic regression on log-power, recentred by adapt; it records what it is given."""

    log = ()

    def fit(self, X, y):
        self.events_ = [("fit", X, y)]
        type(self).log.append(self.events_)
        self.model_ = LogisticRegression().fit(self.features(X), y)
        self.classes_, self.centre_ = self.model_.classes_, self.features(X).mean(axis=0)
        return self

    def features(self, X):
        return np.log(X.var(axis=2))

    def adapt(self, X, y=None):
        self.events_.append(("adapt", X, y))
        return self

    def predict_proba(self, X):
        self.events_.append(("predict", X, None))
        return self.model_.predict_proba(self.features(X))


@pytest.fixture
def log(monkeypatch):
    monkeypatch.setattr(Power, "log", [])
    return Power.log


def subjects_of(X, trials):
    owner = {x.tobytes(): s for x, s in zip(np.asarray(trials.data.X), trials.data.subjects.tolist())}
    return {owner[x.tobytes()] for x in np.asarray(X)}


@pytest.mark.parametrize("target", ["none", "unlabeled", "labeled"])
def test_models_see_nothing_of_their_fold_but_target_data(log, target):
    trials = make_trials(target)
    result = search([("own", Power())], trials)
    assert len(log) == 10 and result.nested
    for pair, events in zip(trials.folds, sorted_by_fold(log, trials)):
        (name, X, _), *later = events
        assert name == "fit" and subjects_of(X, trials) == set(range(5)) - set(pair)
        for subject in pair:
            calls = [(name, X, y) for name, X, y in later if subjects_of(X, trials) == {subject}]
            n_adapted = {"none": [], "unlabeled": [20], "labeled": [4]}[target]
            assert [len(X) for name, X, _ in calls if name == "adapt"] == n_adapted
            assert [len(X) for name, X, _ in calls if name == "predict"] == [
                16 if target == "labeled" else 20
            ]
            given = [y for name, _, y in calls if name == "adapt"]
            assert [None if y is None else y.tolist() for y in given] == (
                {"none": [], "unlabeled": [None], "labeled": [[0, 1, 0, 1]]}[target]
            )


def sorted_by_fold(log, trials):
    by_pair = {}
    for events in log:
        (pair,) = [fold for fold in trials.folds if not subjects_of(events[0][1], trials) & set(fold)]
        by_pair[pair] = events
    return [by_pair[pair] for pair in trials.folds]


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("changed", ["labels", "signals"])
def test_nothing_about_a_subject_decides_for_this_subject(everything, changed):
    subject = 3

    def change(X, y, subjects):
        idx = subjects == subject
        if changed == "labels":
            y[idx] = 1 - y[idx]
        else:
            X[idx] = 50 * np.random.default_rng(1).normal(size=X[idx].shape)

    other = search(CANDIDATES, make_trials(change=change))
    for (name, fold), model in everything.models.items():
        assert (other.models[name, fold] == model) == (subject in everything.heldout.folds[fold])
    names = everything.finalists
    before, after = (result.heldout.for_nested_weights(subject, names) for result in (everything, other))
    assert all(map(np.array_equal, before, after)) and subject not in before[2]
    before, after = (result.heldout.for_final_weights(names)[0] for result in (everything, other))
    assert not np.array_equal(before, after), "where the subject may be used, weights can change"
    scores = [result.heldout.nested_scores(names) for result in (everything, other)]
    if changed == "labels":  # The same answers are exactly as wrong now as they were right.
        assert scores[1][subject] == pytest.approx(1 - scores[0][subject])
    assert scores[0][subject] > 0.7 > scores[1][subject]


def test_search_without_limit(everything):
    assert everything.finalists == ["riemann", "power", "subject"]
    assert everything.nested and not everything.errors and len(everything.models) == 30
    assert everything.heldout.scores("riemann").mean() > 0.75
    seconds = {name: everything.seconds[name] / everything.n_trainings[name] for name in everything.finalists}
    assert 0 < seconds["riemann"] < seconds["subject"]


def test_models_give_the_held_out_probabilities(everything):
    data = make_trials().data
    for name in everything.finalists:
        subject = everything.heldout.folds[2][1]
        rows = data.rows([subject])
        model = unpack_model(everything.models[name, 2])
        P = decode_subject(model, data.X[rows], data.y[rows], "unlabeled", 2)
        np.testing.assert_allclose(everything.heldout.probabilities[name][2][subject], P, atol=1e-6)


@pytest.mark.filterwarnings("ignore:`fork` start method")
def test_searches_are_repeatable_also_in_processes(everything):
    limits = {"max_trainings": 16}
    candidates = ["power", *NETS]
    one, again = search(candidates, **limits), search(candidates, **limits)
    with forking_joblib():
        two = search(candidates, n_jobs=2, **limits)
    assert one.models == again.models == two.models and len(one.models) == 16
    assert one.finalists == again.finalists == two.finalists and one.nested == two.nested
    assert all(model == everything.models[key] for key, model in one.models.items() if key[0] != "trial")
    other = search([NETS[0]], make_trials(seed=1), max_trainings=3)
    assert other.models["subject", 0] != one.models["subject", 0]


def test_killed_search_continues_from_its_store(everything, tmp_path, monkeypatch):
    class KilledError(Exception):
        pass

    def kill(result, search):
        if sum(search.n_trainings.values()) == 11:
            raise KilledError

    def train(training, *args):
        trained.append(training.name)
        return fit_training(training, *args)

    trained, fit_training = [], runner.fit_training
    monkeypatch.setattr(runner, "fit_training", train)
    store = Store(tmp_path / "new" / "folder")
    with pytest.raises(KilledError):
        search(CANDIDATES, store=store, report=kill)
    files = sorted(store.folder.glob("*.training"))
    assert len(files) == len(trained) == 11
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"x")  # A damaged file counts as missing.
    files[1].write_bytes(b"")
    assert search(CANDIDATES, store=store).models == everything.models
    assert len(trained) == 11 + 19 + 2
    again = search(CANDIDATES, store=store)
    assert again.models == everything.models and len(trained) == 32
    np.testing.assert_array_equal(again.heldout.scores("subject"), everything.heldout.scores("subject"))
    search(["power"], make_trials("none"), store)  # Another target is another training.
    assert len(trained) == 42


def test_own_estimators_are_not_stored(tmp_path, log):
    for n_trainings in (10, 20):
        result = search([("own", Power())], store=Store(tmp_path / "store"))
        assert len(log) == n_trainings and isinstance(result.models["own", 0], Power)
    assert not (tmp_path / "store").exists()


def test_time_limit_with_real_trainings(everything):
    """The whole way once, timing runs included; time itself is tested with a clock of the test's."""
    result = search(["power", NETS[0]], time_limit=60)
    assert result.finalists == ["power", "subject"] and len(result.models) >= 13
    assert unpack_model(result.models["subject", 0]).max_steps == 3
    assert result.models["power", 4] == everything.models["power", 4]
