"""The search by pairs: what is trained, within which budget, and that it can be killed, resumed and interrupted."""

import time
from functools import partial

import numpy as np
import pytest
from people import mixed_people
from processes import forking_joblib
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier

from braindecode_censor.run.pair_data import PairData
from braindecode_censor.run.pair_runner import PairRunner, Task
from braindecode_censor.run.pair_store import PairStore
from braindecode_censor.run.pair_trainings import (
    calibration_trials,
    heldout_probabilities,
    train_pair,
    train_pairs,
    unpack_model,
)
from braindecode_censor.search import pair_speed
from braindecode_censor.search.budget import Budget
from braindecode_censor.search.family import find_candidates
from braindecode_censor.search.folds import make_pairs
from braindecode_censor.search.pair_search import PairSearch, retest
from braindecode_censor.search.pair_speed import Speed

TINY = {"network": "EEGNet", "F1": 2, "D": 1, "max_steps": 4, "kernel": 0.1, "augment": None}
NETS = [{"name": name, **TINY, "normalize": name} for name in ("subject", "trial", "euclidean")]
CLASSICAL = ["riemann", "power"]


def make_data(target="unlabeled", n_people=5, seed=0, **options):
    X, y, subjects = mixed_people(n_people, **options)
    return PairData(X, y, subjects - 1, make_pairs(n_people), target, random_state=seed)


def search(candidates, data=None, folder=None, n_jobs=1, report=None, **budget):
    data = data or make_data()
    found, censored = find_candidates(candidates)
    runner = PairRunner(data, PairStore(folder, data), n_jobs)
    report = report or (lambda outcome, result: None)
    return PairSearch(data, found, censored, Budget(**budget), runner, report).run()


def counts(result):
    return {name: len(found) for name, found in result.heldout.found.items()}


@pytest.fixture(scope="module")
def everything():
    return search([*CLASSICAL, *NETS[:1]])


def test_without_a_limit_everything_is_trained(everything):
    assert counts(everything) == {"riemann": 10, "power": 10, "subject": 10}
    assert sorted(everything.finalists) == ["subject", "power", "riemann"]
    assert everything.strict and not everything.errors and not everything.interrupted
    assert everything.heldout.scores("riemann").mean() > 0.75
    assert len(everything.models) == 30 and sum(everything.trainings.values()) == 30


def test_a_training_has_not_seen_its_pair():
    data = make_data("none")
    changed = make_data("none")
    a, b = data.pairs[3]
    both = np.isin(data.people, (a, b))
    changed.X = np.where(both[:, None, None], 100 * changed.X, changed.X)
    changed.y = np.where(both, 1 - changed.y, changed.y)
    for name in ("riemann", NETS[0]):
        candidate = find_candidates([name])[0][0]
        assert train_pair(candidate, 3, None, data).model == train_pair(candidate, 3, None, changed).model
        assert train_pair(candidate, 4, None, data).model != train_pair(candidate, 4, None, changed).model


def test_models_that_were_kept_say_what_was_noted(everything):
    data = make_data()
    for name, kind in (("riemann", "classical"), ("subject", "network")):
        model = unpack_model(kind, everything.models[name, 2])
        person = data.pairs[2][1]
        mine = data.trials_of(person)
        P = heldout_probabilities(model, data.X[mine], data.y[mine], "unlabeled", 2)
        np.testing.assert_allclose(everything.heldout.found[name][2][person], P, atol=1e-6)


@pytest.mark.parametrize("target", ["none", "unlabeled", "labeled"])
def test_what_a_decoder_is_told(target):
    class Spy(DummyClassifier):
        def adapt(self, X, y=None):
            told.append((len(X), None if y is None else y.tolist()))
            return self

    told = []
    X, y = np.zeros((10, 1, 4)), np.array([0, 1] * 5)
    P = heldout_probabilities(Spy(strategy="uniform").fit(X[:, 0], y), X, y, target, 2)
    assert told == {"none": [], "unlabeled": [(10, None)], "labeled": [(2, [0, 1])]}[target]
    assert np.isnan(P).any(axis=1).tolist() == [target == "labeled" and k < 2 for k in range(10)]


def test_calibration_trials_are_the_first_of_each_class():
    y = np.array([0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2])
    assert np.flatnonzero(calibration_trials(np.r_[y, 0])).tolist() == [0, 1, 2]


def test_labels_are_used_in_the_labelled_tier_by_those_who_can():
    data = make_data("labeled")
    result = search(["riemann", NETS[0]], data)
    assert np.isfinite(result.heldout.nested_scores(result.finalists)).all()
    for person in range(5):
        told = calibration_trials(data.y[data.trials_of(person)])
        P = next(found[person] for found in result.heldout.found["subject"].values() if person in found)
        np.testing.assert_array_equal(np.isnan(P).any(axis=1), told)


def test_a_model_that_does_not_know_a_class_gives_it_no_chance():
    model = DummyClassifier(strategy="uniform").fit(np.zeros((4, 1)), [0, 2, 0, 2])
    P = heldout_probabilities(model, np.zeros((3, 1)), np.zeros(3, int), "none", 4)
    np.testing.assert_array_equal(P, [[0.5, 0, 0.5, 0]] * 3)


@pytest.mark.parametrize("limit", [3, 8, 24])
def test_a_number_of_trainings_is_kept(limit):
    """Of the thirty that five candidates and six pairs would be."""
    result = search([*CLASSICAL, *NETS], make_data(n_people=4), max_trainings=limit)
    total = sum(result.trainings.values())
    assert max(1, limit - 5) <= total <= limit
    assert result.finalists


def test_halving_keeps_the_better_ones():
    bad = {"name": "bad", **TINY, "lr": 1e-9}
    worse = {"name": "worse", **TINY, "lr": 1e-9, "normalize": "trial"}
    good = {**NETS[0], "max_steps": 20, "lr": 0.01, "name": "good"}
    result = search([bad, worse, good], max_trainings=12)
    assert counts(result)["good"] > counts(result)["bad"]
    assert result.finalists[0] == "good" and len(result.finalists) == 2
    assert not result.strict


@pytest.mark.parametrize("finished", [2, 3])
def test_longer_trainings_replace_shorter_ones_once_they_have_tested_everybody(finished):
    """A round that ends early, after two of five people's pairs, does not leave a candidate with less than before."""
    data, (found, _) = make_data(), find_candidates(NETS[:1])
    runner = PairRunner(data, PairStore(None, data))
    tried = PairSearch(data, found, False, Budget(), runner)
    again = [(4, range(2))]  # as when a round is begun anew: the same pairs count once
    for steps, positions in [(2, range(10)), *again, (4, range(finished))]:
        for outcome in runner.run([Task(found[0], list(positions), steps)]):
            tried._note(outcome)
    kept = {position: 2 for position in range(10)} if finished == 2 else {0: 4, 1: 4, 2: 4}
    assert {position: _steps_of(model) for (_, position), model in tried.result.models.items()} == kept
    assert sorted(tried.result.heldout.found["subject"]) == sorted(kept)


def _steps_of(model):
    return unpack_model("network", model).max_steps


def test_censoring_competes_on_top_of_the_best_network():
    result = search([NETS[0], "censored"], make_data(n_people=4), max_trainings=18)
    censored = [name for name in result.candidates if "+" in name]
    assert len(censored) == 15 and all(name.startswith("subject+") for name in censored)
    assert any(name in result.heldout.found for name in censored)
    assert sum(result.trainings.values()) <= 18 and not result.strict


@pytest.mark.parametrize("budget", [{"max_trainings": 40}, {"time_limit": 8}], ids=["trainings", "time"])
def test_three_people_are_enough_for_everything_but_censoring(budget):
    """A training sees one person then; nobody can be told apart, and nobody can validate."""
    result = search(["power", *NETS, "paper", "censored"], make_data(n_people=3), **budget)
    assert "power" in result.finalists and not any("+" in name for name in result.candidates)
    named = {"name": "named", **TINY, "penalty": "mmd", "weight": 0.1}
    others = [{**named, "name": f"named {k}"} for k in range(5)]
    result = search(["power", named, *others], make_data(n_people=3), **budget)
    assert result.finalists == ["power"] and "censoring needs" in result.errors["named"]


def test_a_lucky_score_of_two_people_does_not_push_out_those_who_tested_all():
    data, (found, _) = make_data(n_people=4), find_candidates(["power", NETS[0]])
    tried = PairSearch(data, found, False, Budget(), PairRunner(data, PairStore(None, data)))
    for position, pair in enumerate(data.pairs):
        right = [np.eye(2)[data.y[data.trials_of(person)]] for person in pair]
        tried.result.heldout.add("power", position, *(0.6 * P + 0.2 for P in right))
        if position == 0:
            tried.result.heldout.add("subject", position, *right)
    assert tried._comparable(["power", "subject"]) == ["power"]
    for position, pair in enumerate(data.pairs[1:], 1):
        right = [np.eye(2)[data.y[data.trials_of(person)]] for person in pair]
        tried.result.heldout.add("subject", position, *right)
    assert tried._comparable(["power", "subject"]) == ["power", "subject"]


def test_candidates_that_have_no_pair_in_common_are_not_combined():
    data, (found, _) = make_data(n_people=4), find_candidates(["power", NETS[0]])
    tried = PairSearch(data, found, False, Budget(), PairRunner(data, PairStore(None, data)))
    for name, positions in (("power", (0, 1)), ("subject", (2,))):
        for position in positions:
            right = [np.eye(2)[data.y[data.trials_of(person)]] for person in data.pairs[position]]
            tried.result.heldout.add(name, position, *right)
    assert tried._comparable(["subject", "power"]) == ["power"]


def test_the_best_is_asked_of_people_whom_all_have_tested():
    """Of two candidates with too few pairs for everybody, the one with easy people is not the better one."""
    data, (found, _) = make_data(n_people=10), find_candidates(["power", NETS[0]])
    tried = PairSearch(data, found, False, Budget(), PairRunner(data, PairStore(None, data)))
    hard = {person for pair in data.pairs[4:5] for person in pair}
    for position, pair in enumerate(data.pairs):
        right = [np.eye(2)[data.y[data.trials_of(person)]] for person in pair]
        sure = [0.1 if person in hard else 0.6 for person in pair]
        tried.result.heldout.add("power", position, *(s * P + (1 - s) / 2 for s, P in zip(sure, right)))
        if position < 4:  # worse on each of these, better than the other one's mean over everybody
            tried.result.heldout.add("subject", position, *(0.55 * P + 0.225 for P in right))
    assert tried.result.loss("subject") < tried.result.loss("power")
    assert tried._comparable(["power", "subject"]) == ["power"]


def test_same_seed_same_models_and_another_seed_other_models(everything):
    again = search([*CLASSICAL, *NETS[:1]])
    assert again.models == everything.models
    other = search(NETS[:1], make_data(seed=1))
    assert other.models["subject", 0] != everything.models["subject", 0]


@pytest.mark.filterwarnings("ignore:`fork` start method")
def test_two_processes_find_the_same(everything):
    with forking_joblib():
        again = search(["power", *NETS[:1]], n_jobs=2)
    assert again.models == {key: model for key, model in everything.models.items() if key[0] != "riemann"}


def test_a_cluster_finds_the_same(everything):
    distributed = pytest.importorskip("dask.distributed")
    data = make_data()
    found, _ = find_candidates(["power", NETS[0]])
    options = dict(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None)
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        runner = PairRunner(data, PairStore(None, data), client=client)
        result = PairSearch(data, found, False, Budget(None, 6), runner).run()
    assert len(result.models) == 6
    assert all(everything.models[key] == model for key, model in result.models.items())


def test_a_killed_search_goes_on_where_it_was(everything, tmp_path):
    class Killed(Exception):
        pass

    def kill(outcome, result):
        if sum(result.trainings.values()) == 13:
            raise Killed

    with pytest.raises(Killed):
        search([*CLASSICAL, *NETS[:1]], folder=tmp_path, report=kill)
    files = sorted((tmp_path / "pairs").iterdir())
    assert len(files) >= 13
    before = {path: path.stat().st_mtime_ns for path in files}
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"x")  # damaged: trained again
    again = search([*CLASSICAL, *NETS[:1]], folder=tmp_path)
    assert again.models == everything.models
    assert [path for path in files if path.stat().st_mtime_ns != before[path]] == files[:1]
    assert len(list((tmp_path / "pairs").iterdir())) == 30
    # other data and another tier are other trainings
    search(["power"], make_data("none"), folder=tmp_path)
    assert len(list((tmp_path / "pairs").iterdir())) == 40


def test_ctrl_c_returns_what_was_found():
    def interrupt(outcome, result):
        if outcome.candidate == "subject" and outcome.position == 5:
            raise KeyboardInterrupt

    result = search([*CLASSICAL, *NETS[:1]], report=interrupt)
    assert result.interrupted and not result.strict
    assert counts(result) == {"riemann": 10, "power": 10, "subject": 6}
    assert sorted(result.finalists) == ["subject", "power", "riemann"]
    assert len(result.heldout.shared_pairs(result.finalists)) == 6


def test_ctrl_c_before_anything_was_found():
    class Interrupting(DummyClassifier):
        def fit(self, X, y):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search([Interrupting()])


class Failing(ClassifierMixin, BaseEstimator):
    """Fails in fit."""

    def fit(self, X, y):
        raise ValueError("no such thing")

    def predict_proba(self, X):
        return X


def test_a_candidate_that_fails_is_left_out():
    result = search(["power", Failing()])
    assert result.finalists == ["power"]
    assert result.errors == {"Failing": "ValueError: no such thing"}
    with pytest.raises(ValueError, match=r"every candidate failed. Failing: ValueError: no such thing"):
        search([Failing()])


@pytest.mark.usefixtures("everything")  # libraries are loaded before the clock starts
@pytest.mark.parametrize(
    ("others", "limit"), [([], 4), (CLASSICAL, 3)], ids=["a network", "with classical candidates"]
)
def test_time_is_kept(others, limit):
    slow = {**NETS[0], "max_steps": 3_000}  # a full search would take minutes
    started = time.perf_counter()
    result = search([*others, slow], make_data(n_people=6, n_trials=40), time_limit=limit)
    assert time.perf_counter() - started < limit + 1
    assert result.finalists and set(others) <= set(result.heldout.found)
    assert sum(result.trainings.values()) >= len(others)


@pytest.mark.parametrize(("share", "looks"), [(1e-9, ["some"]), (0.5, ["some", "all", "all"])])
def test_a_network_is_looked_at_as_long_as_it_takes_little_of_the_time(monkeypatch, share, looks):
    """A slow one is trained once, for three steps on a few trials, which tells how slow it is."""
    monkeypatch.setattr(pair_speed, "_MEASURING", share)
    data = make_data(n_people=6, n_trials=60)
    speed = Speed(data, Budget(2000), PairRunner(data, PairStore(None, data)))
    seen = []

    def watch(candidate, positions, steps, part, **options):
        started = time.perf_counter()
        found = train_pairs(candidate, positions, steps, part, **options)
        seen.append((("some", "all")[len(part.X) == len(data.X)], steps, time.perf_counter() - started))
        return found

    monkeypatch.setattr(pair_speed, "train_pairs", watch)
    costs, errors = speed.measure_all(find_candidates(NETS)[0])  # three of the same size
    assert [look for look, _, _ in seen] == looks and not errors
    cost = costs["subject"]
    assert costs["euclidean"].per_step == cost.per_step > 0
    if looks == ["some"]:
        assert cost.per_step == pytest.approx(seen[0][2] / 3, rel=0.2)
    else:
        assert [steps for _, steps, _ in seen] == [3, 3, 20]
        assert cost.overhead + 20 * cost.per_step == pytest.approx(seen[2][2], rel=0.2)


def test_a_network_that_fails_says_so_although_it_was_to_be_looked_at_once(monkeypatch):
    monkeypatch.setattr(pair_speed, "_MEASURING", 1e-9)
    data = make_data(n_people=3)  # one is left to train on: nobody can validate
    speed = Speed(data, Budget(2000), PairRunner(data, PairStore(None, data)))
    costs, errors = speed.measure_all(find_candidates(["paper"])[0])
    assert not costs and "ValueError" in errors["paper"]


def test_something_is_trained_even_if_its_share_of_the_time_is_too_short():
    data = make_data()
    found, _ = find_candidates(["power", "hjorth"])
    one = PairSearch(data, found, False, Budget(60), PairRunner(data, PairStore(None, data)))
    one.expected |= {"power": 30.0, "hjorth": 30.0}  # the first stage has about 16 seconds
    one._quick(found[:1], 0.3)
    assert "power" in one.result.heldout.found
    one._quick(found[1:], 0.3)  # now that there is something, a stage keeps to its share
    assert "hjorth" not in one.result.heldout.found


def test_a_time_too_short_for_one_training():
    with pytest.raises(ValueError, match=r"time_limit=0.001 s is too short for one training"):
        search(CLASSICAL, time_limit=0.001)


@pytest.mark.parametrize(
    "budget", [{}, {"max_trainings": 20}, {"time_limit": 12}], ids=["all", "trainings", "time"]
)
def test_a_fleet_finds_what_single_trainings_find(everything, budget):
    data = make_data()
    found, _ = find_candidates(["power", NETS[0]])
    runner = PairRunner(data, PairStore(None, data))
    runner.has_fleet = True  # as on a GPU
    assert [runner.is_for_fleet(candidate) for candidate in found] == [False, True]
    result = PairSearch(data, found, False, Budget(**budget), runner).run()
    assert sorted(result.finalists) == ["subject", "power"] and not result.errors
    if "time_limit" in budget:  # a training of as many steps as there was time for, alone
        steps = _steps_of(result.models["subject", 0])
        alone = train_pair(found[1], 0, steps, data)
        expected = {0: dict(zip(data.pairs[0], (alone.first, alone.second)))}
    else:
        expected = everything.heldout.found["subject"]
    for position in expected.keys() & result.heldout.found["subject"].keys():
        for person, P in result.heldout.found["subject"][position].items():
            np.testing.assert_allclose(P, expected[position][person], atol=1e-4)


def test_one_network_that_fails_does_not_take_the_fleet_with_it():
    data = make_data(n_people=3)  # one is left to train on: nobody can validate
    found, _ = find_candidates([NETS[0], "paper"])
    runner = PairRunner(data, PairStore(None, data))
    runner.has_fleet = True
    found[1].spec["max_steps"] = 2
    result = PairSearch(data, found, False, Budget(), runner).run()
    assert result.finalists == ["subject"] and "paper" in result.errors


def test_models_can_be_tested_again_with_other_knowledge(everything):
    data = make_data("unlabeled")
    tests = {
        target: partial(heldout_probabilities, target=target, n_classes=2) for target in ("unlabeled", "none")
    }
    again, other = retest(everything, data, tests).values()
    for name, found in everything.heldout.found.items():
        for position, mine in found.items():
            for person, P in mine.items():
                np.testing.assert_allclose(again.found[name][position][person], P, atol=1e-6)
                assert not np.allclose(other.found[name][position][person], P)


def test_measuring_speeds_ends_in_time():
    """What is not measured by then has to wait, so that something is trained however short the limit is."""
    data, (found, _) = make_data(), find_candidates(["riemann", "power", "waveform", "hjorth"])
    seconds = iter(range(1000))
    budget = Budget(20, now=lambda: next(seconds))  # every look at the clock takes a second
    tried = PairSearch(data, found, False, budget, PairRunner(data, PairStore(None, data)))
    tried._probe(found, budget.elapsed() + 3)
    assert list(tried.expected) == ["riemann", "power"]
