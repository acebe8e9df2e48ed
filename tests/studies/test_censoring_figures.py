"""The censoring study, on people so few that it takes seconds: what is trained, what is not seen, what is drawn."""

import importlib.util
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from subjects import mixed_subjects

from braindecode_censor.figures import plot_censoring
from braindecode_censor.fleet import train_fleet
from braindecode_censor.fleet.group import Group
from braindecode_censor.paper.grid import METHODS
from braindecode_censor.search.family import find_candidates
from studies.censoring import censoring_study
from studies.censoring import runs as censoring_runs
from studies.censoring.study import MODES, Study, make_folds, make_settings

ROOT = Path(__file__).parents[2]
OPTIONS = {"folds": 2, "levels": [1.0], "control_modes": ["conditional"], "methods": ["mmd"]}
OPTIONS |= {"calibrate": False, "max_steps": 3, "device": "cpu", "group_size": 16, "compile": False}
TINY = {"kind": "mixed", "n_subjects": 4, "n_trials": 12, "n_chans": 4, "sfreq": 64.0, "duration": 0.75}


def make_study(base="subject", labels=None, **options):
    X, y, subjects = mixed_subjects(4, 12)
    return Study(X, y if labels is None else labels, subjects - 1, 64.0, base, {**OPTIONS, **options})


@pytest.fixture(scope="module")
def found():
    study = make_study()
    return study, study.run([3], study.settings)[3]


def test_every_method_mode_and_weight_and_three_kinds_of_controls():
    base = find_candidates(["euclidean"])[0][0]
    settings = make_settings(base, [0.1, 1, 10], ["conditional"])
    censored = [s for s in settings if s.control == "censored"]
    assert len({(s.method, s.mode) for s in censored}) == len(METHODS) * len(MODES) == 15
    assert len(censored) == 45 and len(set(settings)) == len(settings)
    assert {s.weight for s in censored if s.method == "adv"} == {0.003, 0.03, 0.3}
    reveal = [s for s in settings if s.control == "reveal"]
    assert len(reveal) == 5 and all(s.weight < 0 for s in reveal)
    assert sum(s.control == "labels" for s in settings) == 5


def test_everybody_is_left_out_once_and_differently_with_every_seed():
    for seed in range(3):
        assert sorted(np.concatenate(make_folds(7, 3, seed))) == list(range(7))
    assert not np.array_equal(make_folds(7, 3, 0)[0], make_folds(7, 3, 1)[0])


def test_a_network_of_the_study_is_the_estimator_of_that_name(found):
    study, arrays = found
    left_out = make_folds(4, 2, 3)[0]
    k = next(i for i, s in enumerate(study.settings) if (s.mode, s.control) == ("conditional", "censored"))
    alone = find_candidates(["subject+mmd-conditional"])[0][0].make((4, 64), 64.0, 3000, "cpu", 3)
    seen = ~np.isin(study.people, left_out)
    alone.fit(study.X[seen], study.y[seen], subjects=study.people[seen])
    for person in left_out:
        mine = study.people == person
        expected = alone.adapt(study.X[mine]).predict_proba(study.X[mine])
        np.testing.assert_allclose(
            arrays["probabilities"][k, mine], expected, atol=2e-3
        )  # kept in half precision
        score = np.mean([(expected[study.y[mine] == c].argmax(1) == c).mean() for c in (0, 1)])
        assert arrays["scores"][k, person] == pytest.approx(score)


def test_only_mige_is_calibrated():
    for calibrate in (False, True):
        study = make_study(methods=["mmd", "mige"], calibrate=calibrate)
        for setting in study.settings:
            penalty = study._estimator(setting, 0, 0).get_params().get("penalty__calibrate", False)
            assert penalty == (calibrate and setting.method == "mige")
        weights = {s.method: s.weight for s in study.settings if s.control == "censored"}
        assert weights == {"mmd": 0.3, "mige": 0.1 if calibrate else 0.01}


def test_an_interrupted_run_goes_on_where_it_was(found, tmp_path, monkeypatch):
    """Saved after every epoch here, and interrupted in the second."""
    study, arrays = found
    some = study.settings[2:5]  # with and without a penalty
    monkeypatch.setattr(censoring_study, "train_fleet", partial(train_fleet, every=0.0))
    epochs, close = [], Group.close_epoch

    def interrupt(group, *args):
        epochs.append(group.members[0].epoch)
        if epochs[-1] == 1 and not resumed:
            raise KeyboardInterrupt
        close(group, *args)

    monkeypatch.setattr(Group, "close_epoch", interrupt)
    resumed = False
    with pytest.raises(KeyboardInterrupt):
        study.run([3], some, tmp_path)
    assert list(tmp_path.iterdir())
    resumed = True
    epochs.clear()
    again = study.run([3], some, tmp_path)[3]
    assert min(epochs) == 1  # nobody began anew
    assert not list(tmp_path.iterdir())
    for name, array in arrays.items():
        np.testing.assert_allclose(again[name], array[2:5], atol=2e-3, err_msg=name)


def test_classes_of_people_left_out_are_not_seen(found):
    study, arrays = found
    left_out = make_folds(4, 2, 3)[0]
    mine = np.isin(study.people, left_out)
    other = make_study(labels=np.where(mine, 1 - study.y, study.y)).run([3], study.settings[2:])[3]
    arrays = {name: array[2:] for name, array in arrays.items()}
    np.testing.assert_array_equal(other["probabilities"][:, mine], arrays["probabilities"][:, mine])
    assert not np.array_equal(other["probabilities"][:, ~mine], arrays["probabilities"][:, ~mine])
    np.testing.assert_allclose(other["scores"][:, left_out], 1 - arrays["scores"][:, left_out])


def test_shuffled_labels_leave_classes_and_the_validator_alone():
    study = make_study("paper")
    seen = np.flatnonzero(study.people != 0)
    owners = study._shuffle(seen, 2, 0)
    np.testing.assert_array_equal(owners == 2, study.people[seen] == 2)
    table = lambda who: pd.crosstab(who, study.y[seen]).to_numpy()  # noqa: E731
    np.testing.assert_array_equal(table(owners), table(study.people[seen]))
    assert (owners != study.people[seen]).mean() > 0.2


def test_the_paper_knows_nothing_of_the_person():
    study = make_study("paper", methods=["mmd"], levels=[], control_modes=[])
    arrays = study.run([0], study.settings)[0]
    person = make_folds(4, 2, 0)[0][0]
    mine = np.flatnonzero(study.people == person)
    few = Study(np.delete(study.X, mine[:6], 0), np.delete(study.y, mine[:6]), np.delete(study.people, mine[:6]), 64.0,
                "paper", study.options)  # fmt: skip
    again = few.run([0], few.settings)[0]["probabilities"][:, few.people == person]
    np.testing.assert_allclose(again, arrays["probabilities"][:, mine[6:]], atol=1e-3)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    spec = importlib.util.spec_from_file_location(
        "run_censoring", ROOT / "paper_figures" / "run_censoring.py"
    )
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    out = tmp_path_factory.mktemp("results")
    args = [
        "--out",
        str(out),
        "--quick",
        "--device",
        "cpu",
        "--max-steps",
        "2",
        "--base",
        "subject",
        "--group-size",
        "16",
    ]
    before = censoring_runs.TINY
    censoring_runs.TINY = TINY
    try:
        script.main(args)
        yield script, out, args
    finally:
        censoring_runs.TINY = before


def saved(out):
    return {path: path.stat().st_mtime_ns for path in (out / "simulated" / "subject").glob("seed_*.npz")}


def test_what_is_finished_is_not_done_again(results, capsys):
    script, out, args = results
    before = saved(out)
    assert {path.name.split("_")[2] for path in before} == {"none", "mmd"}
    script.main(args)
    assert saved(out) == before and capsys.readouterr().out.count("finished before") == 2
    script.main([*args, "--time-limit", "0", "--base", "euclidean"])
    assert "no time left" in capsys.readouterr().out


def test_another_weight_is_trained_by_itself(results, tmp_path, monkeypatch):
    """The new file holds the new weight only, and what it says is what one run of both says."""
    script, whole, _ = results
    monkeypatch.setattr(censoring_runs, "POPULATION", TINY)
    censoring_runs.read_recording.cache_clear()
    run = "--recording simulated --seeds 1 --folds 2 --methods mmd --max-steps 2 --base person --device cpu"
    for levels in ("10", "1 10"):
        before = saved(tmp_path)
        script.main([*run.split(), "--levels", *levels.split(), "--out", str(tmp_path)])
    censoring_runs.read_recording.cache_clear()
    assert {path: saved(tmp_path)[path] for path in before} == before
    (new,) = set(saved(tmp_path)) - set(before)
    with np.load(new) as stored:
        assert len(stored["scores"]) == len(MODES)
    keys = ["seed", "method", "mode", "weight", "control", "subject"]
    both, once = (
        censoring_runs.collect(out)["scores"].set_index(keys)["score"].sort_index()
        for out in (tmp_path, whole)
    )
    pd.testing.assert_series_equal(both, once)


def test_of_two_lengths_the_longer_counts(results, tmp_path):
    script, out, args = results
    shutil.copytree(out, tmp_path, dirs_exist_ok=True)
    args = [*args, "--out", str(tmp_path), "--max-steps", "1"]
    before = censoring_runs.collect(out)["scores"]
    script.main(args)
    assert len(saved(tmp_path)) == 2 * len(saved(out))
    found = censoring_runs.collect(tmp_path)
    pd.testing.assert_frame_equal(found["scores"], before)
    assert (found["cost"]["max_steps"] == 2).all()


def test_two_kinds_of_mige_do_not_share_a_folder(results, capsys):
    script, _, args = results
    with pytest.raises(SystemExit, match="2"):
        script.main([*args, "--calibrate"])
    assert "holds plain MIGE: give a study of calibrated MIGE a folder of its own" in capsys.readouterr().err


def test_without_a_finished_training_nothing_is_written_and_plots_say_so(results, tmp_path):
    script, _, args = results
    script.main([*args, "--out", str(tmp_path), "--time-limit", "-1"])
    assert not list(tmp_path.rglob("*.csv*"))
    with pytest.raises(ValueError, match="holds no finished trainings"):
        plot_censoring.make_tables(tmp_path)


def test_a_method_that_fails_is_told_and_tried_again(results, tmp_path, monkeypatch, capsys):
    script, _, args = results
    args = [*args, "--out", str(tmp_path)]
    with monkeypatch.context() as patch:
        patch.setattr(Study, "run", lambda *_: torch.zeros(1 << 60))  # more memory than there is
        with pytest.raises(SystemExit, match="1"):
            script.main(args)
    told = capsys.readouterr()
    assert told.out.count("failed (RuntimeError: ") == 2 and "2 of 2 failed: start again" in told.err
    script.main(args)
    assert "failed" not in capsys.readouterr().out and len(saved(tmp_path)) == 2


def test_tables_alone_say_what_the_trainings_say(results, tmp_path):
    _, out, _ = results
    tables = censoring_runs.collect(out)
    for name in tables:
        shutil.copy(out / f"{name}.csv.gz", tmp_path)
    for name, alone in censoring_runs.collect(tmp_path).items():
        pd.testing.assert_frame_equal(alone, tables[name], check_dtype=False, check_exact=True)


def test_tables_and_figures_are_written_for_the_documentation(results, tmp_path):
    _, out, _ = results
    plot_censoring.main(["--results", str(out), "--again", str(out), "--docs", str(tmp_path)])
    text = (tmp_path / "results" / "censoring.md").read_text()
    assert "scores of a person are the same, and the mean over people differs by 0.0000 at most" in text
    assert text.startswith("**simulated**") and "**no gain** was found" in text
    settings = pd.read_csv(out / "tables" / "censoring_settings.csv")
    assert set(settings["mode"]) == set(MODES) and settings["detectable"].notna().any()
    assert "## simulated" in (tmp_path / "results" / "censoring_tables.md").read_text()
    page = (tmp_path / "evidence.md").read_text()
    shown = {line.split("/")[1] for line in page.splitlines() if line.startswith("```{figure}")}
    assert "{include} results/censoring.md" in page and len(max(page.splitlines(), key=len)) < 400
    assert (
        shown
        == {path.name for path in (tmp_path / "_static").iterdir()}
        == {
            "censoring_gain_simulated.png",
            "censoring_leakage_simulated.png",
            "censoring_people.png",
            "censoring_trade.png",
        }
    )


def test_recordings_need_their_folder(results):
    script, out, _ = results
    with pytest.raises(SystemExit):
        script.main(["--out", str(out), "--recording", "erp_uci_smni"])


def test_recipes_of_one_recording_only_leave_no_empty_panel():
    """The first of a row has its name, the last of a column what its axis means."""
    where = [("emg", "subject"), ("erp", "subject"), ("erp", "wide")]
    rows = [(*one, person, 0.5 + 0.1 * person, 0.01, 0.002) for one in where for person in range(3)]
    people = pd.DataFrame(rows, columns=["recording", "base", "subject", "score", "gain", "spread"])
    panels = [axis for axis in plot_censoring.draw_people(people).axes if axis.get_visible()]
    assert [axis.get_ylabel() for axis in panels] == ["person\ngain", "", "wide\ngain"]
    assert [bool(axis.get_xlabel()) for axis in panels] == [True, False, True]
    assert all(len(axis.containers) == 1 for axis in panels)


def test_a_weight_that_loses_the_task_does_not_hide_the_others():
    lines = [
        ("conditional", 0.1, 0.02),
        ("conditional", 0.3, -0.5),
        ("marginal", 0.1, 0.01),
        ("marginal", 0.3, 0.03),
    ]
    columns = ["recording", "base", "method", "mode", "weight", "gain", "low", "high", "share"]
    rows = [("erp", "subject", "mige", *line, line[2] - 0.01, line[2] + 0.01, 0.5) for line in lines]
    table = pd.DataFrame(rows, columns=columns)
    for draw in (plot_censoring.draw_weights, plot_censoring.draw_trade):
        low, high = draw(table).axes[0].get_ylim()
        assert low == pytest.approx(-0.1) and 0.03 < high < 0.1
        mild = draw(table[table["gain"] > 0]).axes[0].get_ylim()
        assert -0.02 < mild[0] < 0.01


def test_people_are_drawn_though_a_setting_has_fewer_seeds():
    columns = ["recording", "base", "seed", "method", "mode", "weight", "control", "subject", "score"]
    rows = [
        ("erp", "subject", seed, method, mode, weight, control, person, score)
        for method, weight, control, score, seeds in [
            ("none", 0.0, "batches", 0.5, 4),
            ("mmd", 0.3, "censored", 0.5, 4),
            ("mmd", 1.0, "censored", 0.6, 2),
        ]
        for mode in ("marginal", "conditional")
        for seed in range(seeds)
        for person in range(3)
    ]
    gains = plot_censoring.read_gains(pd.DataFrame(rows, columns=columns))
    people = plot_censoring.people_table(gains)
    np.testing.assert_allclose(people["gain"], 0.1)
    np.testing.assert_allclose(people["spread"], 0.0, atol=1e-12)
