"""Optuna's search: its ranges, its selection, and the same numbers after an interruption."""

import pandas as pd
import pytest
from tiny import GRID, ONE_EPOCH, copy_of, experiment, finished, run

from braindecode_censor.paper.cluster import hide_password
from braindecode_censor.paper.grid import METHODS
from braindecode_censor.paper.optuna_search import open_study, propose, search
from braindecode_censor.penalties.options import search_space_of

optuna = pytest.importorskip("optuna")


@pytest.mark.parametrize("method", METHODS)
def test_proposals_are_valid_settings_within_the_ranges(method):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    configs = [propose(study.ask(), method) for _ in range(40)]
    low, high = search_space_of(method)["weight"][:2]
    assert all(low <= s.weight <= high for s in configs)
    assert {s.mode for s in configs} == {"marginal", "conditional", "complementary"}
    if method == "mige":
        assert all(("reg" in dict(s.options)) == (dict(s.options)["score"] != "ssge") for s in configs)


OPTIONS = {"search": "optuna", "n_optuna_trials": 4, "grid": GRID, "training": ONE_EPOCH}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A search that nothing disturbed."""
    return run(tmp_path_factory.mktemp("optuna") / "out", **OPTIONS)


def test_the_best_of_each_method_are_kept(whole):
    table = pd.read_csv(whole.out / "search.csv")
    assert table["method"].value_counts().to_dict() == {"mmd": 4, "adv": 4}
    best = table.groupby("method")["score_valid"].max()
    kept = table[table["setting"].isin(whole.scores["setting"])].groupby("method")["score_valid"].max()
    pd.testing.assert_series_equal(kept, best)
    assert table["score_valid"].nunique() > 1, "or keeping the worst would pass as well"
    assert experiment(whole.out, **OPTIONS).plan()["remaining"] == 0


def test_interrupted_search_continues_to_the_same_numbers(whole, tmp_path):
    class Stop(Exception):
        pass

    (tmp_path / "stopped").mkdir()
    stopped = experiment(tmp_path / "stopped", **OPTIONS)
    write, count = stopped.store.write, iter(range(4))

    def write_three(key, content, **facts):
        write(key, content, **facts)
        if next(count) == 2:
            raise Stop

    stopped.store.write = write_three
    with pytest.raises(Stop):
        search(stopped, None)
    again = pd.DataFrame(search(experiment(tmp_path / "stopped", **OPTIONS), None).values())
    pd.testing.assert_frame_equal(again, pd.read_csv(whole.out / "search.csv"))
    assert len(finished(tmp_path / "stopped")) == len(set(finished(tmp_path / "stopped"))) == 8
    out = copy_of(whole.out, tmp_path / "copy")  # Opening a study writes to it.
    studies = [open_study(experiment(folder, **OPTIONS), "adv") for folder in (out, tmp_path / "stopped")]
    values = [[t.value for t in study.trials if t.state.name == "COMPLETE"] for study in studies]
    assert values[0] == values[1] and len(values[0]) == 4


def test_deleted_journal_is_written_again_and_trials_can_be_added(whole, tmp_path):
    out = copy_of(whole.out, tmp_path / "out")
    keys, table = finished(out), pd.read_csv(out / "search.csv")
    (out / "optuna.journal").unlink()
    again = pd.DataFrame(search(experiment(out, **OPTIONS), None).values())
    pd.testing.assert_frame_equal(again, table)
    assert finished(out) == keys, "the proposals are the same"
    more = pd.DataFrame(search(experiment(out, **OPTIONS | {"n_optuna_trials": 5}), None).values())
    assert more["method"].value_counts().to_dict() == {"mmd": 5, "adv": 5}
    assert set(table["setting"]) < set(more["setting"])


def test_a_bad_trial_is_cut_short_and_not_mistaken_for_a_training(tmp_path):
    """Five trials that are right in every epoch make the sixth, which is not, stop as it may: in epoch five."""
    options = {"search": f"sqlite:///{tmp_path}/studies.db", "n_optuna_trials": 6, "grid": GRID[:1]}
    training = {"max_epochs": 6, "batch_size": 16, "module__F1": 2, "module__D": 1}
    study_of_six = experiment(tmp_path / "out", training=training, **options)
    study = open_study(study_of_six, "mmd")
    study.sampler = optuna.samplers.RandomSampler(seed=0)  # else two of the five are alike now and then
    for _ in range(5):
        trial = study.ask()
        propose(trial, "mmd")
        for epoch in range(1, 7):
            trial.report(1.0, epoch)
        study.tell(trial, 1.0)
    assert len(search(study_of_six, None)) == 5
    last = open_study(study_of_six, "mmd").trials[-1]
    assert last.state.name == "PRUNED"
    assert sorted(last.intermediate_values) == [1, 2, 3, 4, 5]
    assert not finished(study_of_six.out), "the search trained nothing to its end"


def test_two_machines_share_a_database(tmp_path):
    """The second one finds the search done and keeps the same configs without training any of it."""
    options = {"search": f"sqlite:///{tmp_path}/studies.db", "n_optuna_trials": 3}
    options |= {"grid": GRID[1:], "training": ONE_EPOCH}
    one, two = (search(experiment(tmp_path / name, **options), None) for name in ("one", "two"))
    assert one == two and len(one) == 3
    study = open_study(experiment(tmp_path / "two", **options), "adv")
    assert len(study.trials) == 3
    assert len(finished(tmp_path / "one")) == 3 and not finished(tmp_path / "two")
    # A running trial of another machine is left as it is; one of this machine, from before a crash, is asked again.
    study.ask().set_user_attr("owner", "another machine")
    propose(study.ask(), "adv")
    study = open_study(experiment(tmp_path / "two", **options), "adv")
    assert [t.state.name for t in study.trials[3:]] == ["RUNNING", "FAIL", "WAITING"]


def test_database_that_cannot_be_opened(tmp_path):
    with pytest.raises(ValueError, match=r"search='sqlite:////no/such/folder/studies.db' cannot be opened"):
        run(tmp_path, search="sqlite:////no/such/folder/studies.db")


@pytest.mark.parametrize("password", ["sec ret", "p%40ss", "a/b:c"])
def test_no_password_is_ever_shown(tmp_path, password):
    address = f"postgresql://ann:{password}@127.0.0.1:1/studies?password={password}"
    with pytest.raises(ValueError, match="search=") as caught:
        run(tmp_path, search=address)
    assert password not in str(caught.value) and "p@ss" not in str(caught.value)
    assert "***" in str(caught.value)
    assert hide_password("sqlite:///a.db", "sqlite:///a.db") == "sqlite:///a.db"
