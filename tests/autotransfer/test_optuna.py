"""Does Optuna's search stay in its ranges, keep the best and resume to the same numbers?"""

import pandas as pd
import pytest
from autotransfer.tiny import FULL_GRID, GRID, experiment, finished

from braindecode_censor.autotransfer.grid import METHODS
from braindecode_censor.autotransfer.optuna_search import WEIGHTS, propose

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
    whole = experiment(tmp_path / "whole", **options).run()
    table = pd.read_csv(tmp_path / "whole" / "search.csv")
    assert table["method"].value_counts().to_dict() == {"mmd": 4, "adv": 4}
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


def test_nested_and_optuna_are_refused(tmp_path):
    with pytest.raises(ValueError, match="nested=True needs search='grid'"):
        experiment(tmp_path, FULL_GRID, search="optuna", nested=True)
