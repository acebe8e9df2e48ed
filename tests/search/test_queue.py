"""The queue of a search: what is trained, in which order, within which budget. Trainings are faked, time too."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from braindecode_censor.run.training import TrainingResult, TrialData
from braindecode_censor.search import queue
from braindecode_censor.search.budget import Budget
from braindecode_censor.search.family import find_candidates
from braindecode_censor.search.folds import FoldedTrials, make_folds

CLASSICAL = ["power", "riemann"]
NETS = [{"name": name, "network": "EEGNet", "max_steps": 1000} for name in ("net1", "net2", "net3")]
WIDE = {"name": "wide", "network": "EEGNet", "F1": 32, "max_steps": 1000}


class FakeRun:
    """Replaces the runner: trainings take seconds of a clock and decode as well as their candidate's skill says."""

    def __init__(self, folds, labels, seconds, skill, errors, on_gpu):
        self.folds, self.labels, self.clock = folds, labels, 1000.0
        self.seconds = seconds  # name -> of a classical training; name -> per step of a network
        self.skill = skill  # name -> probability of the true class
        self.errors = errors  # name, or (name, fold), -> message
        self.on_gpu = (
            on_gpu  # Networks are trained together, so all trainings are taken before the first begins.
        )
        self.log, self.calls, self.timing_runs = [], [], []

    def now(self):
        return self.clock

    def __call__(self, trainings, data, until=None, **options):
        names = []
        for training in list(trainings) if self.on_gpu else trainings:
            names.append((training.name, self.folds.index(training.test)))
            steps = getattr(training.estimator, "max_steps", None)
            yield self.train(training, steps, until)
        self.calls.append(names)

    def train(self, training, steps, until):
        name, fold = training.name, self.folds.index(training.test)
        seconds = self.seconds.get(name, 0.01 if steps else 1.0) * (steps or 1)
        (self.timing_runs if steps in (3, 20, 60) else self.log).append((name, fold))
        error = self.errors.get(name) or self.errors.get((name, fold))
        if error is None and steps and until is not None and self.clock + seconds > until:
            seconds, error = max(0.0, until - self.clock), "OutOfTimeError: the time limit was reached"
        self.clock += seconds
        if error is not None:
            return TrainingResult(training, record={"seconds": seconds}, error=error)
        probabilities = {subject: self.decode(name, fold, subject) for subject in training.test}
        return TrainingResult(training, b"model", probabilities, {"seconds": seconds})

    def decode(self, name, fold, subject):
        rng = np.random.default_rng([len(name), fold, subject])
        y = self.labels[subject]
        true = np.clip(self.skill.get(name, 0.6) + 0.2 * rng.normal(size=len(y)), 0.02, 0.98)
        return np.where(np.arange(2) == y[:, None], true[:, None], 1 - true[:, None])


@pytest.fixture
def make(monkeypatch):
    def make(candidates, n_subjects=8, seconds=(), skill=(), errors=(), device="cpu", report=None, **limits):
        y = np.tile([0, 1] * 6, n_subjects)
        subjects = np.repeat(np.arange(n_subjects), 12)
        data = TrialData(np.zeros((len(y), 2, 64), np.float32), y, subjects)
        trials = FoldedTrials(data, make_folds(n_subjects), device=device)
        run = FakeRun(trials.folds, trials.labels, dict(seconds), dict(skill), dict(errors), device == "cuda")
        monkeypatch.setattr(queue, "run", run)
        monkeypatch.setattr(queue, "time", SimpleNamespace(time=run.now, perf_counter=run.now))
        configured, censored = find_candidates(candidates)
        search = queue.Search(trials, configured, censored, Budget(now=run.now, **limits))
        search.report = report or search.report
        return search, run

    return make


def counts(result):
    return {name: len(folds) for name, folds in result.heldout.probabilities.items()}


FIRST, ALL = range(4), range(16)  # folds of eight subjects with four partners each


def test_search_without_limit_trains_everything_classical_first_and_fold_by_fold(make):
    search, run = make([NETS[0], *CLASSICAL, NETS[1]])
    result = search.run()
    names = ["power", "riemann", "net1", "net2"]
    first = [(name, fold) for name in names for fold in FIRST]
    assert run.log == first + [(name, fold) for fold in ALL[4:] for name in names]
    assert list(result.candidates) == result.finalists == names and len(result.models) == 64
    assert result.nested and not result.interrupted and not run.timing_runs
    assert result.n_trainings == dict.fromkeys(names, 16)


def test_search_without_limit_trains_censored_variants_of_the_best_network_last(make):
    paper = {"name": "protocol", "network": "EEGNet", "protocol": "paper", "max_steps": 9, "max_epochs": None}
    search, run = make(["power", *NETS[:2], paper, "censored"], skill={"net2": 0.7, "protocol": 0.9})
    result = search.run()
    variants = [name for name in result.candidates if "+" in name]
    assert len(variants) == 15 and all(name.startswith("net2+") for name in variants)
    assert run.log[4 * 16 :] == [(name, fold) for name in variants for fold in ALL]
    assert not result.nested and set(counts(result).values()) == {16}


def test_search_of_three_subjects_has_no_censored_variants(make):
    result = make([*NETS[:1], "censored"], n_subjects=3)[0].run()
    assert list(result.candidates) == ["net1"] and result.nested


@pytest.mark.parametrize("candidates", [CLASSICAL, NETS, [*CLASSICAL, *NETS, "censored"]])
@pytest.mark.parametrize("n_subjects", [3, 5, 8])
def test_max_trainings_is_kept_and_used(make, candidates, n_subjects):
    n_folds = {3: 3, 5: 10, 8: 16}[n_subjects]
    for limit in (1, 2, 3, 4, 5, 7, 10, 13, 17, 24, 40, 200):
        search, run = make(candidates, n_subjects, max_trainings=limit)
        result = search.run()
        n_trained = sum(result.n_trainings.values())
        assert n_trained == len(run.log) <= limit and result.finalists
        if n_trained < limit:  # Then the best candidate has all folds, or less than a pass is left.
            assert max(counts(result).values()) == n_folds or limit - n_trained < search.trials.n_first_folds
        complete = [n for n in counts(result) if len(result.heldout.tested_subjects(n)) == n_subjects]
        assert result.finalists == complete or not complete
        if limit < search.trials.n_first_folds:
            assert n_trained == limit  # all of it, although no pass fits


def test_max_trainings_extends_the_candidates_with_most_weight(make):
    search, run = make([*CLASSICAL, *NETS], skill={"net2": 0.99, "power": 0.3}, max_trainings=27)
    result = search.run()
    assert run.log[:2] == [("power", 0), ("riemann", 0)]  # each tells its cost
    first = [(n, k) for n in CLASSICAL for k in FIRST[1:]]
    assert run.log[2:20] == first + [(n, k) for n in ("net1", "net2", "net3") for k in FIRST]
    assert run.log[20:] == [("net2", fold) for fold in range(4, 11)]
    assert not result.nested and len(result.finalists) == 5


def test_search_is_nested_if_scores_decided_nothing(make):
    assert make(NETS[:1], max_trainings=9)[0].run().nested  # a single candidate
    equal = {"net1": 0.6, "net2": 0.6}
    result = make(NETS[:2], skill=equal, max_trainings=14)[0].run()
    assert counts(result) == {"net1": 7, "net2": 7} and result.nested  # both hold weight, both go on
    assert make([*CLASSICAL, *NETS], max_trainings=20)[0].run().nested  # no second pass


def test_time_limit_order(make):
    """Classical candidates, timing runs, networks, the best further, those that had to wait, censored variants."""
    candidates = ["power", *NETS, {**NETS[0], "name": "net4"}, WIDE, "censored"]
    search, run = make(candidates, seconds={"wide": 0.04}, skill={"net1": 1.5}, time_limit=650)
    result = search.run()
    order = run.log
    assert run.timing_runs == [("net1", 0)] * 3
    assert order[:4] == [("power", k) for k in FIRST]
    assert order[4:20] == [(f"net{n}", k) for n in range(1, 5) for k in FIRST]
    assert order[20:32] == [("net1", k) for k in ALL[4:]]
    assert order[32:36] == [("wide", k) for k in FIRST]  # It would have exceeded the first pass.
    assert order[36:40] == [("net1+mmd-marginal", k) for k in FIRST]
    assert search.cost.fraction == 1 and run.clock - 1000 <= 650 and not result.nested


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_time_limit_is_kept(make, seed, device):
    """Whatever trainings cost, as long as the first classical one and the timing runs leave some time."""
    rng = np.random.default_rng(seed)
    names = ["power", "riemann", "waveform", "net1", "net2", "net3", "wide"]
    seconds = {name: rng.uniform(0.1, 3) for name in names[:3]}
    seconds |= dict.fromkeys(["net1", "net2", "net3"], per_step := rng.uniform(1e-3, 0.03)) | {
        "wide": 4 * per_step
    }
    limit = rng.uniform(30, 900)
    candidates = [*names[:3], *NETS, WIDE, "censored"]
    search, run = make(candidates, seconds=seconds, device=device, time_limit=limit)
    result = search.run()
    used = run.clock - 1000
    assert used <= limit and result.finalists
    assert used > 0.6 * limit or set(counts(result).values()) == {16}, "the time was not used"
    steps = {search.cost.steps(result.candidates[n]) for n in result.candidates if n.startswith("net")}
    assert len(steps) <= 1 and steps <= {125, 250, 500, 1000}


def test_time_limit_gives_all_networks_the_same_fraction_of_steps(make):
    long = {**NETS[1], "max_steps": 2000}
    search, _ = make([NETS[0], long], seconds={"net1": 0.02, "net2": 0.02}, time_limit=200)
    search.run()
    steps = [search.cost.steps(candidate) for candidate in search.networks]
    assert search.cost.fraction < 1 and steps[1] == 2 * steps[0] == 2000 * search.cost.fraction


def test_expensive_classical_candidate_leaves_time_to_networks(make):
    seconds = {"power": 2.0, "riemann-bands": 14.0, "net1": 0.005}
    search, run = make(["power", "riemann-bands", NETS[0]], seconds=seconds, time_limit=60)
    result = search.run()
    assert counts(result)["net1"] >= 4 and counts(result)["power"] >= 4
    assert sum(s for name, s in result.seconds.items() if name == "riemann-bands") <= 0.5 * 60
    assert run.clock - 1000 <= 60


def test_slow_first_classical_candidate_does_not_stop_the_search(make):
    result = make(["power", NETS[0]], seconds={"power": 40.0, "net1": 1e-3}, time_limit=60)[0].run()
    assert counts(result) == {"power": 1, "net1": counts(result)["net1"]} and result.finalists == ["net1"]


@pytest.mark.parametrize(
    "candidates, seconds",
    [
        (NETS, dict.fromkeys(["net1", "net2", "net3"], 50.0)),
        (["power", "riemann"], {}),
        (["power", NETS[0]], {}),
    ],
)
def test_time_too_short_for_anything(make, candidates, seconds):
    search, run = make(candidates, seconds=seconds, time_limit=60 if seconds else 1e-3)
    search.budget.start -= 0 if seconds else 1  # the second before is over already
    with pytest.raises(
        ValueError, match=r"time_limit=(60|0.001) s is too short for one training of any cand"
    ):
        search.run()
    assert run.clock - 1000 <= 1.05 * 60 and not search.result.errors


def test_time_too_short_for_a_pass_is_used_for_some_folds(make):
    result = make(NETS[:1], seconds={"net1": 0.08}, time_limit=50)[0].run()
    assert 1 <= counts(result)["net1"] < 4 and result.finalists == ["net1"]
    result = make(["power"], seconds={"power": 12.0}, time_limit=50)[0].run()
    assert counts(result) == {"power": 3} and result.finalists == ["power"]


def test_network_that_is_given_up_keeps_what_it_has(make):
    """A network that suddenly takes a hundred times as long is stopped at the limit; its candidate stays."""
    search, run = make(NETS[:1], seconds={"net1": 0.004}, time_limit=100)

    def slow_down(result, _):
        if sum(search.result.n_trainings.values()) == 6:
            run.seconds["net1"] *= 100

    search.report = slow_down
    result = search.run()
    assert run.clock - 1000 == pytest.approx(105) and len(run.log) == 7
    assert counts(result) == {"net1": 6} and len(result.models) == 6 and not result.errors


def test_first_network_that_fails_is_not_timed(make):
    errors = {"net1": "ValueError: no such layer"}
    search, run = make(NETS[:2], errors=errors, time_limit=200)
    result = search.run()
    assert result.finalists == ["net2"] and result.errors == errors
    assert run.timing_runs == [("net1", 0), ("net2", 0), ("net2", 0), ("net2", 0)]
    assert not any(name == "net1" for name, _ in run.log)


def test_gpu_trains_a_pass_of_a_candidate_at_once(make):
    search, run = make([*CLASSICAL, *NETS[:2]], skill={"net1": 0.99}, device="cuda", time_limit=1000)
    result = search.run()
    assert [len(call) for call in run.calls if call and call[0][0] == "net1"][:3] == [4, 4, 4]  # timing runs
    after = [call for call in run.calls if call and call[0][0].startswith("net")][3:]
    assert after[:2] == [[(name, fold) for fold in FIRST] for name in ("net1", "net2")]
    assert after[2] == [("net1", 4)] and counts(result)["net1"] == 16
    assert search.trials.training(search.networks[0], 0).estimator.device == "cuda"


def test_gpu_plans_a_fleet_by_the_sum_of_its_trainings(make):
    """All trainings of a fleet begin at once, so the time that is left must be enough for all of them."""
    seconds = dict.fromkeys(["net1", "net2", "net3"], 0.05)
    search, run = make(NETS, seconds=seconds, device="cuda", time_limit=150)
    result = search.run()
    assert run.clock - 1000 <= 150 and result.finalists and not result.errors


@pytest.mark.parametrize("limits", [{}, {"max_trainings": 30}, {"time_limit": 500}])
def test_failed_candidates_are_dropped_with_all_their_models(make, limits):
    errors = {"riemann": "LinAlgError: singular", ("net1", 5): "DivergedError: the loss is not finite"}
    result = make([*CLASSICAL, *NETS[:1]], errors=errors, **limits)[0].run()
    assert result.finalists == ["power"] and set(counts(result)) == {"power"}
    assert result.errors == {"riemann": errors["riemann"], "net1": errors["net1", 5]}
    assert {name for name, _ in result.models} == {"power"}
    assert result.n_trainings["riemann"] == 1, "a failed candidate is not tried again"


@pytest.mark.parametrize("limits", [{}, {"max_trainings": 30}, {"time_limit": 500}])
def test_all_failed(make, limits):
    errors = {"power": "ValueError: a", "net1": "TypeError: b"}
    with pytest.raises(ValueError, match="All candidates failed: power: ValueError: a; net1: TypeError: b"):
        make(["power", NETS[0]], errors=errors, **limits)[0].run()


def interrupt_after(n_trainings):
    def report(result, search):
        if sum(search.n_trainings.values()) == n_trainings:
            raise KeyboardInterrupt

    return report


@pytest.mark.parametrize("n_trainings", [1, 4, 6, 21])
def test_interrupted_search_returns_what_is_finished(make, n_trainings):
    search, run = make([*CLASSICAL, *NETS[:1]], report=interrupt_after(n_trainings))
    result = search.run()
    assert result.interrupted and not result.nested and len(run.log) == n_trainings == len(result.models)
    complete = [name for name, count in counts(result).items() if count >= 4]
    assert result.finalists == (complete or list(counts(result)))
    assert np.isfinite(result.heldout.nested_scores(result.finalists)).any()


def test_interrupted_before_anything_is_finished(make):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    search, run = make(CLASSICAL)
    search.run_trainings = interrupt
    with pytest.raises(KeyboardInterrupt):
        search.run()


def test_finalists_without_a_complete_candidate_share_a_fold(make):
    search, _ = make([*CLASSICAL, NETS[0]])
    result = search.result
    for name, folds in {"power": [0, 1], "riemann": [1], "net1": [2]}.items():
        candidate = next(c for c in [*search.classical, *search.networks] if c.name == name)
        for fold in folds:
            training = search.trials.training(candidate, fold)
            result.candidates[name] = candidate
            P = {subject: np.full((12, 2), 0.5) for subject in training.test}
            result.record(TrainingResult(training, b"", P, {}), fold)
    assert result.select_finalists(8) == ["power", "riemann"]
    assert result.select_finalists(4) == ["power"]  # had it tested all


def test_own_estimators_are_trained_before_networks(make):
    search, run = make([NETS[0], ("own", DummyClassifier())], max_trainings=12)
    search.run()
    assert [name for name, _ in run.log[:8]] == ["own"] * 4 + ["net1"] * 4
    assert all(a[1] < b[1] for a, b in pairwise(run.log[:4]))
