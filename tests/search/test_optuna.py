"""Does Optuna's search stay in its ranges, keep the best and resume to the same numbers?"""

import pandas as pd
import pytest
from tiny import FULL_GRID, GRID, experiment, finished

from braindecode_censor.search.candidates import METHODS
from braindecode_censor.search.optuna_search import WEIGHTS, open_study, propose

optuna = pytest.importorskip("optuna")


@pytest.mark.parametrize("method", METHODS)
def test_proposals_are_valid_settings_within_the_ranges(method):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    settings = [propose(study.ask(), method) for _ in range(40)]
    low, high = WEIGHTS[method]
    assert all(low <= s.weight <= high for s in settings)
    assert {s.mode for s in settings} == {"marginal", "conditional", "complementary"}
    if method == "mige":
        assert all(("reg" in dict(s.options)) == (dict(s.options)["score"] != "ssge") for s in settings)


def test_an_interrupted_search_ends_the_same(tmp_path):
    options = {"search": "optuna", "trials": 4, "grid": GRID}
    expected = {"mmd": 4, "adv": 4}
    whole = experiment(tmp_path / "whole", **options).run()
    table = pd.read_csv(tmp_path / "whole" / "search.csv")
    assert table["method"].value_counts().to_dict() == expected
    best = table.sort_values("score_valid", kind="stable").groupby("method")["score_valid"].max()
    kept = table[table["setting"].isin(whole.scores["setting"])].groupby("method")["score_valid"].max()
    pd.testing.assert_series_equal(kept, best)

    class Stop(Exception):
        pass

    stopped = experiment(tmp_path / "stopped", **options)
    write, count = stopped.memory.write, iter(range(4))

    def write_three(key, training):
        record = write(key, training)
        if next(count) == 2:
            raise Stop
        return record

    stopped.memory.write = write_three
    with pytest.raises(Stop):
        stopped.run()
    again = experiment(tmp_path / "stopped", **options).run()
    pd.testing.assert_frame_equal(again.scores, whole.scores)
    assert len(finished(tmp_path / "stopped")) == len(set(finished(tmp_path / "whole")))
    studies = [open_study(experiment(tmp_path / name, **options), "adv") for name in ("whole", "stopped")]
    values = [[t.value for t in study.trials if t.state.name == "COMPLETE"] for study in studies]
    assert values[0] == values[1] and len(values[0]) == 4


def test_a_bad_trial_is_cut_short_and_not_mistaken_for_a_training(tmp_path):
    """Five trials that are right in every epoch make the sixth, which is not, stop as soon as it may: in epoch five."""
    options = {"search": "optuna", "trials": 6, "grid": GRID[:1]}
    training = {"max_epochs": 12, "batch_size": 16, "module__F1": 2, "module__D": 1}
    run = experiment(tmp_path, training=training, **options)
    study = open_study(run, "mmd")
    for _ in range(5):
        trial = study.ask()
        propose(trial, "mmd")
        for epoch in range(1, 13):
            trial.report(1.0, epoch)
        study.tell(trial, 1.0)
    run.run()
    last = open_study(run, "mmd").trials[-1]
    assert last.state.name == "PRUNED"
    assert sorted(last.intermediate_values) == [1, 2, 3, 4, 5]
    assert len(pd.read_csv(tmp_path / "search.csv")) == 5
    # the search trained nothing to its end: all that is remembered are folds of the cross-validation
    assert len(finished(tmp_path)) == 2 * 4


def test_two_machines_share_a_database(tmp_path):
    """The second one finds the search done and keeps the same settings without training any of it."""
    options = {
        "search": "optuna",
        "trials": 3,
        "grid": GRID[1:],
        "storage": f"sqlite:///{tmp_path}/studies.db",
    }
    one = experiment(tmp_path / "one", **options).run()
    two = experiment(tmp_path / "two", **options).run()
    assert (tmp_path / "one" / "search.csv").read_bytes() == (tmp_path / "two" / "search.csv").read_bytes()
    pd.testing.assert_frame_equal(one.scores, two.scores)
    study = open_study(experiment(tmp_path / "two", **options), "adv")
    assert len(study.trials) == 3
    assert len(finished(tmp_path / "two")) == 2 * 4 < len(finished(tmp_path / "one"))
    # somebody else's running trial is left alone, one's own from before a crash is asked again
    study.ask().set_user_attr("owner", "somebody else")
    mine = study.ask()
    propose(mine, "adv")
    study = open_study(experiment(tmp_path / "two", **options), "adv")
    assert [t.state.name for t in study.trials[3:]] == ["RUNNING", "FAIL", "WAITING"]


def test_a_database_that_cannot_be_opened(tmp_path):
    broken = {"search": "optuna", "storage": "sqlite:////no/such/folder/studies.db"}
    with pytest.raises(ValueError, match=r"storage='sqlite:////no/such/folder/studies.db' cannot be opened"):
        experiment(tmp_path, **broken).run()
    with pytest.raises(ValueError, match=r"storage=.* is for search='optuna'"):
        experiment(tmp_path, storage="sqlite:///x.db")


def test_nested_and_optuna_are_refused(tmp_path):
    with pytest.raises(ValueError, match="nested=True needs search='grid'"):
        experiment(tmp_path, FULL_GRID, search="optuna", nested=True)
